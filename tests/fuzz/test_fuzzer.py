"""300 damaged files through the commands that read them; `make fuzz` tries 10,000."""

import os

import pytest
from fuzz.corpus import KINDS, build
from fuzz.fuzzer import _copy, damageable, run_case
from typer.testing import CliRunner

from sightline.cli.app import app

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="memory is measured on Linux"
)
N_CASES, N_BATCHES = 300, 10


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    build(folder)
    return folder


@pytest.mark.parametrize("batch", range(N_BATCHES))
def test_a_damaged_file_works_or_is_refused_in_one_sentence(corpus, tmp_path, batch):
    numbers = range(batch, N_CASES, N_BATCHES)
    cases = [run_case(number, corpus, tmp_path) for number in numbers]
    assert [case for case in cases if case.problem] == []
    structured = sum(case.damage.endswith(": contents") for case in cases)
    assert structured >= len(cases) / 2
    assert {case.code for case in cases} >= {0, 1}


def test_the_kinds_cover_every_command_that_reads():
    commands = {command[0] for kind in KINDS for command in kind.commands}
    assert commands == {
        *("apply", "blindspots", "commission", "compare", "episodes", "evaluate"),
        *("inspect", "lint", "report", "run", "simulate", "start", "study", "watch"),
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_command_reads_files_that_are_sound_and_can_be_damaged(
    kind, corpus, tmp_path, monkeypatch
):
    for number, command in enumerate(kind.commands):
        folder = tmp_path / str(number)
        _copy(kind, command, corpus, folder)
        assert damageable(kind, folder)
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(app, list(command))
        # Short made-up files of a testbed are read, and found too short.
        is_read = result.exit_code in (0, 3) or "not what they should" in result.stdout
        assert is_read, (command, result.output)
