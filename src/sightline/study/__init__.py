"""Studies: detectors x testbeds x seeds, resumable, on one machine or on a cluster.

`plan` reads what to do, `run` does it, `collect` writes the study's folder. A cell is
one detector on one testbed with one seed: `cell` describes it and how far it is,
`execute_cell` runs it, `pools` run many, and `cache` keeps what is finished.
"""
