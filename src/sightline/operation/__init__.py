"""Rules at the plant: applied to later records, from residuals or from telemetry.

================  ===================================================================
`telemetry`       from exports of the plant through the saved detector to rows
`records`         what a rule is applied to: a stream, a table, a plant's folder
`apply`           alarms, the promise against what came true, drift
`watch`           the same from file to file, as they arrive in a folder
`watched_folder`  which files of the folder are new, and the rows in them
`live`            a rule and a detector that go on where they stopped
`watch_state`     the SQLite file that remembers everything
`week`            the last seven days: page, metrics, lines
================  ===================================================================
"""
