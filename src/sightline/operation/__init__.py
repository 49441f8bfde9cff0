"""Rules at the plant: applied to later records, from residuals or from telemetry.

================  ===================================================================
`telemetry`       from exports of the plant through the saved detector to rows
`records`         what a rule is applied to: a stream, a table, a plant's folder
`apply`           alarms, the promise against what came true, drift
================  ===================================================================
"""
