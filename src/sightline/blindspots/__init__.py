"""Blind spots: what a detector with its alarm rule could not see.

Falsifications are written into attack-free telemetry at places drawn from the record,
pass through the detector, and are judged by alarm rules. The size from which on they
are seen is the answer.

================  ===================================================================
`places`          where falsifications are written, and which rows judge them
`shapes`          what is written: step, ramp, frozen, ... one class each
`rule_view`       a rule at the places: which size brings which row over its limit
`telemetry`       readings at the places, falsified and brought to the detector's rows
`search`          the size of each tag, shape, duration and rule
`result`          typed records, as they are written and read
================  ===================================================================

No module here knows a detector: `sightline.blindspots.find` passes one in as a
`Stage1`.
"""
