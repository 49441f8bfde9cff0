"""Rules at the plant: applied to later records, from residuals or from telemetry.

=============  ======================================================================
`telemetry`    from files of the plant, through the saved detector, to rows
`apply`        a rule on a stream, a table or a plant's folder: alarms, promise, drift
`watch`        the same from file to file, as they arrive in a folder
`live`         a rule and a detector that go on where they stopped
`watch_state`  the SQLite file that remembers everything
`week`         the last seven days: page, metrics, lines
=============  ======================================================================
"""
