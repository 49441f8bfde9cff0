"""TranAD (Tuli et al., 2022)."""
