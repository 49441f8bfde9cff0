"""Studies: detectors x testbeds x seeds, resumable, on one machine or on a cluster.

`plan` reads what to do, `run` does it, `collect` writes the study's folder. A cell is
one detector on one testbed with one seed: `cell` describes it, `execute_cell` runs it,
`process_pool` and `dask_pool` run many, `cache` keeps what is finished, and `status`
says how far each is.
"""
