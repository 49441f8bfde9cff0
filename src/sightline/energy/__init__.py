"""The normal reference, and the normalised residual energy of every row."""
