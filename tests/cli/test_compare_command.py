import json
import shutil

import pytest
from strategies import make_stream
from typer.testing import CliRunner

from sightline import FileError, write_stream
from sightline.cli.app import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, **options):
        return CliRunner().invoke(app, [str(a) for a in arguments], **options)

    return invoke


def assert_one_sentence(result, *told):
    """The door: exit code 1, one line that ends a sentence, nothing else."""
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    assert "Traceback" not in result.output
    assert result.stdout == ""
    for words in told:
        assert words in line, line


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The results of two detectors on one testbed, only to be read."""
    folder = tmp_path_factory.mktemp("compared")
    for seed, detector in enumerate(("sharp", "dull")):
        stream = make_stream(
            n_train=200,
            n_test=300,
            attacks=[(50, 60), (120, 140), (200, 210), (250, 255)],
            strength=4.0 / (1 + 3 * seed),
            detector=detector,
            testbed="plant",
        )
        write_stream(stream, folder / f"{detector}.npz")
    streams = [str(folder / f"{name}.npz") for name in ("sharp", "dull")]
    words = ["evaluate", *streams, "--no-intervals", "--out", str(folder / "r")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder / "r"


@pytest.fixture
def compared(evaluated, tmp_path):
    """Return a copy of the results, which may be damaged."""
    return shutil.copytree(evaluated, tmp_path / "r")


def test_a_comparison_is_printed(run, compared):
    result = run("compare", compared)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for words in ("sharp", "dull", "plant", "ROC-AUC"):
        assert words in result.stdout


def test_single_results_are_compared(run, compared):
    result = run("compare", compared / "sharp", compared / "dull")
    assert result.exit_code == 0
    assert "dull" in result.stdout


def test_a_comparison_is_written(run, compared, tmp_path):
    result = run("compare", compared, "--out", tmp_path / "c" / "compared.json")
    assert result.exit_code == 0, result.output
    values = json.loads((tmp_path / "c" / "compared.json").read_text())
    assert {row["detector"] for row in values["figures"]} == {"sharp", "dull"}
    assert values["differences"]


def test_an_earlier_comparison_is_kept_unless_asked(run, compared, tmp_path):
    path = tmp_path / "compared.json"
    path.write_text("mine")
    assert_one_sentence(run("compare", compared, "--out", path), "--overwrite")
    assert path.read_text() == "mine"
    assert run("compare", compared, "--out", path, "--overwrite").exit_code == 0
    assert "figures" in json.loads(path.read_text())


@pytest.mark.parametrize("name", [".", "gone"])
def test_a_folder_without_results_gives_one_sentence(run, tmp_path, name):
    result = run("compare", tmp_path / name)
    assert_one_sentence(result, f"{tmp_path / name}: holds no evaluation")


def damage_json(folder):
    (folder / "dull" / "evaluation.json").write_text('{"schema": 1')


def damage_traces(folder):
    (folder / "dull" / "traces.npz").write_bytes(b"hello")


def remove_traces(folder):
    (folder / "dull" / "traces.npz").unlink()


def remove_probe(folder):
    """Every version has written this block: without it a file is no evaluation."""
    path = folder / "dull" / "evaluation.json"
    values = json.loads(path.read_text())
    del values["probe"]
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    "damage", [damage_json, damage_traces, remove_traces, remove_probe]
)
def test_damaged_results_give_one_sentence(run, compared, damage):
    damage(compared)
    assert_one_sentence(run("compare", compared), str(compared / "dull"))


@pytest.mark.parametrize("block", ["rank", "windows"])
def test_results_of_an_older_version_are_compared(run, compared, block):
    path = compared / "dull" / "evaluation.json"
    values = json.loads(path.read_text())
    del values[block]
    values["schema"] = 1
    path.write_text(json.dumps(values))
    result = run("compare", compared)
    assert result.exit_code == 0, result.exception


def test_debug_of_a_comparison_shows_where_an_error_came_from(run, tmp_path):
    assert isinstance(run("compare", tmp_path, "--debug").exception, FileError)
