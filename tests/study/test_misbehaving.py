"""Whatever a detector does, the study ends, and says why the detector has no result."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from study_plans import small_plan

from sightline import run_study
from sightline.study.run import interrupts

sys.path.insert(0, str(Path(__file__).parent))
import misbehaving

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX"),
    pytest.mark.usefixtures("unrendered"),
]
# A few of each sort; all of them are slow.
FEW = ("Story", "Silent", "Exit", "NoFiles", "Hang", "Nan", "WritesIntoItsInput")


def outcomes(names, folder, monkeypatch):
    """Run a study of some detectors and a good one; return why each has failed."""
    here = str(Path(__file__).parent)
    monkeypatch.setenv(
        "PYTHONPATH", f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    )
    detectors = {name: {"detector": f"misbehaving:{name}"} for name in names}
    plan = small_plan(detectors | {"good": {"detector": "misbehaving:Base"}})
    study = run_study(plan, folder, workers=2, cell_timeout_s=20)
    return {name.split("-")[1]: reason for name, reason in study.failed.items()}


def check(names, folder, monkeypatch):
    begin = time.monotonic()
    failed = outcomes(names, folder, monkeypatch)
    assert set(failed) == set(names)
    for name, reason in failed.items():
        assert reason
        assert "\n" not in reason, (name, reason)
        assert len(reason) <= 600, (name, reason)
    for name in set(misbehaving.HANGING) & set(names):
        assert "--cell-timeout" in failed[name]
    assert time.monotonic() - begin < 600 + 60 * len(names)


def test_a_study_of_misbehaving_detectors_ends(tmp_path, monkeypatch):
    check(FEW, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_study_of_every_misbehaving_detector_ends(tmp_path, monkeypatch):
    assert len(misbehaving.NAMES) >= 38
    check(misbehaving.NAMES, tmp_path, monkeypatch)


def test_a_swallowed_interrupt_is_raised_at_the_next_look():
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as check:
        check()
        with suppress(KeyboardInterrupt):  # as in a callback that ignores errors
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before
