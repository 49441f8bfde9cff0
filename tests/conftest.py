"""Property tests draw the same examples each time, unless they are asked to roam.

A run that passed must pass again, or nobody trusts either. SIGHTLINE_FUZZ=50 draws
fifty times as many where files are damaged, and others each time everywhere.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.register_profile("roaming", derandomize=False)
settings.load_profile("roaming" if "SIGHTLINE_FUZZ" in os.environ else "steady")
