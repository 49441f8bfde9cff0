"""The inner loops, compiled by numba and cached on disk; imported where needed.

The first command after an installation compiles them, so they are written for that:
loops in place of whole arrays, and no wrapper that is not called.
"""
