"""FuSAGNet (Han and Woo, 2022)."""
