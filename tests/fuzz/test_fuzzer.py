"""Damaged files through the commands that read them: 300, and 10,000 in `make fuzz`.

The default suite has three batches of thirty and, of sound files, the first command of
each kind; the other seven batches and the other commands are slow.
"""

import os

import pytest
from built_once import built_once
from fuzz.corpus import KINDS, build
from fuzz.fuzzer import _copy, damageable, run_case
from typer.testing import CliRunner

from sightline.cli.app import app

pytestmark = [
    pytest.mark.skipif(
        not os.path.exists("/proc/self/clear_refs"),
        reason="memory is measured on Linux",
    ),
    # Figures for print are drawn from results, which are what can be damaged.
    pytest.mark.usefixtures("unrendered"),
]
N_CASES, N_BATCHES, N_DEFAULT = 300, 10, 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return built_once(tmp_path_factory, "corpus", build)


@pytest.mark.parametrize(
    "batch",
    [
        *range(N_DEFAULT),
        *(pytest.param(k, marks=pytest.mark.slow) for k in range(N_DEFAULT, N_BATCHES)),
    ],
)
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
        *(
            "alarm",
            "apply",
            "blindspots",
            "card",
            "commission",
            "compare",
            "episodes",
            "evaluate",
        ),
        *("inspect", "lint", "report", "run", "simulate", "start", "study", "verify"),
        "watch",
    }


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, k, id=f"{kind.name} {k}", marks=[pytest.mark.slow] * (k > 0))
        for kind in KINDS
        for k in range(len(kind.commands))
    ],
)
def test_every_command_reads_files_that_are_sound_and_can_be_damaged(
    kind, number, corpus, tmp_path, monkeypatch
):
    command, folder = kind.commands[number], tmp_path / "work"
    _copy(kind, command, corpus, folder)
    assert damageable(kind, folder)
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, list(command))
    # Short made-up files of a testbed are read, and found too short.
    is_read = (
        result.exit_code in (0, 3, 6, 7) or "not what they should" in result.stdout
    )
    assert is_read, (command, result.output)
