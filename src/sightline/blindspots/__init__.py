"""Blind spots: what a detector with its alarm rule could not see.

Falsifications are written into attack-free telemetry at places drawn from the record,
pass through the detector, and are judged by alarm rules. The size from which on they
are seen is the answer.

================  ===================================================================
`search`          what users call, `find_blind_spots`, and the search over a record:
                  rules, places, every tag, the result
`shapes`          what is written into which tags: step, ramp, frozen, ...
`places`          where falsifications are written, which rows judge them, and the
                  readings there, falsified and brought to the detector's rows
`detector`        a detector, and its own alarm rule, that read falsified telemetry
`rule_view`       a rule at the places: which size brings which row over its limit
`sizes`           the size of each tag, shape, duration and rule
`attackers`       the attacker who knows detector, rule and limit; attacks of the user
`result`          typed records and their sentences, as `files` writes and reads them
================  ===================================================================

Only `search` and `detector` know detectors; the others are passed one as a
`sightline.blindspots.places.Stage1`.
"""
