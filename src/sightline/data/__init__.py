"""Recordings and residual streams: what flows between producing and evaluating."""
