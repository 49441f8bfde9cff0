"""TranAD: a transformer reconstructs the newest row, twice (Tuli et al., 2022)."""
