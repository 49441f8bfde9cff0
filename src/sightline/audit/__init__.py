"""Audit: what may be wrong with data, and with how residuals of them are judged.

==============  ====================================================================
`record`        every code with its severity and what it does to results; what was read
                and what was found, as it travels with a stream
`data`          the audit of a testbed or of a plant of the user (codes ``SL2xx``);
                `tag_checks` of each of its tags
`attack_facts`  what the telemetry says of each attack, the same for all detectors
`protocol`      checks of how a stream was made and judged (codes ``SL1xx``)
==============  ====================================================================

The checks know no detector: `sightline.study.lint` opens streams, results and plans.
"""
