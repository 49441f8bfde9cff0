"""The first run compiles the kernels, the second loads them: same figures."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import sightline

rng = np.random.default_rng(0)
train, test = rng.normal(size=(3000, 12)), rng.normal(size=(3000, 12))
labels = np.zeros(3000, int)
labels[500:620] = labels[1500:1733] = 1
test[500:620] += 1.5
found = sightline.evaluate(
    sightline.ResidualStream(train, test, labels), intervals=False, diagnosis=False
)
traces = found.traces
bits = traces.segment_d_ms.tobytes() + traces.matched_d_full.tobytes()
print(hashlib.sha1(bits).hexdigest())
"""


def test_a_kernel_from_the_cache_gives_the_bits_of_a_compiled_one(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc"))
    assert first == second
