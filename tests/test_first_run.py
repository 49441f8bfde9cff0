"""The first evaluation after an installation says that loops are compiled, once."""

import numpy as np

from sightline._kernels import announce_compiling, kernel
from sightline.progress import StepKind


def test_compiling_is_announced_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def twice(values):
        return 2.0 * values[0]

    steps = []
    with announce_compiling(steps.append):
        one, two = kernel(twice), kernel(lambda values: values[0])
        assert not steps
        assert one(np.ones(1)) == 2.0
        assert two(np.ones(1)) == 1.0
        assert one(np.ones(2)) == 2.0
    (step,) = steps
    assert step.kind is StepKind.NOTICE
    assert "once after an installation" in step.detail
