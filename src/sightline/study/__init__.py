"""Studies: detectors x testbeds x seeds, resumable, on one machine or on a cluster.

`plan` reads what to do, `run` does it, `collect` writes the study's folder. A cell is
one detector on one testbed with one seed: `cell` describes it, how far it is, and the
cache of finished ones; `execute_cell` runs one, or many.
"""
