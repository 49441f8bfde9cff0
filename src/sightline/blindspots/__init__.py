"""Blind spots: what a detector with its alarm rule could not see.

Falsifications are written into attack-free telemetry at places drawn from the record,
pass through the detector, and are judged by alarm rules. The size from which on they
are seen is the answer.

================  ===================================================================
`find`            what users call: `find_blind_spots`, and their tables of attacks
`search`          the search over a record: rules, places, every tag, the result
`places`          where falsifications are written, and which rows judge them
`shapes`          what is written into which tags: step, ramp, frozen, ...
`telemetry`       readings at the places, falsified and brought to the detector's rows
`detector`        a detector, and its own alarm rule, that read falsified telemetry
`rule_view`       a rule at the places: which size brings which row over its limit
`sizes`           the size of each tag, shape, duration and rule
`knowing`         the attacker who knows detector, rule and limit
`what_if`         attacks of the user
`result`          typed records, as `files` writes and reads them; `words` says them
================  ===================================================================

Only `find`, `search` and `detector` know detectors; the others are passed one as a
`sightline.blindspots.telemetry.Stage1`.
"""
