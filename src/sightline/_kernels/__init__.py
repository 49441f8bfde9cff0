"""The inner loops, compiled by numba and cached on disk; imported where needed."""
