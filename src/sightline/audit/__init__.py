"""Audit: what may be wrong with data, and with how residuals of them are judged.

One table of codes (`codes`), one record (`record`), and two sets of checks:

==============  ====================================================================
`codes`         every code with its severity and one sentence on what it does to results
`record`        what was read and what was found, as it travels with a stream
`data`          the audit of a testbed or of a plant of the user (codes ``SL2xx``)
`checks`        checks of train and test; `tag_checks` of each of their tags
`attack_facts`  what the telemetry says of each attack, the same for all detectors
`protocol`      checks of how a stream was made and judged (codes ``SL1xx``)
==============  ====================================================================

The checks know no detector: `sightline.study.lint` opens streams, results and plans.
"""
