"""Compiled templates are kept, and compiled again when something changes."""

import sys
from pathlib import Path

import jinja2
import pytest

from sightline.report.compiled_templates import CompiledTemplates


def rendered(folder: Path, **options) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        bytecode_cache=CompiledTemplates(folder),
        **options,
    )
    return environment.get_template("a.html").render(name="<x>")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "a.html").write_text("{{ name }}")
    return tmp_path


def test_a_change_of_text_or_options_is_seen(folder):
    assert rendered(folder, autoescape=False) == "<x>"
    assert rendered(folder, autoescape=True) == "&lt;x&gt;"
    (folder / "a.html").write_text("{{ name }}!")
    assert rendered(folder, autoescape=True) == "&lt;x&gt;!"
    assert len(list((folder / "__pycache__").iterdir())) == 1


def test_a_kept_template_is_used_and_a_damaged_one_is_not(folder, monkeypatch):
    rendered(folder)
    (kept,) = (folder / "__pycache__").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(jinja2.Environment, "compile", None)
        assert rendered(folder) == "<x>"
    whole = kept.read_bytes()
    for damaged in (
        b"",
        whole[:15],
        whole[:35],
        whole[:-20],
        whole[:40] + b"\xff" * 90,
    ):
        kept.write_bytes(damaged)
        assert rendered(folder) == "<x>"
        assert kept.read_bytes() == whole


def test_nothing_is_kept_if_python_keeps_nothing(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(folder) == "<x>"
    assert not (folder / "__pycache__").exists()


def test_a_folder_that_cannot_be_written_does_no_harm(folder):
    (folder / "__pycache__").write_text("a file")
    assert rendered(folder) == "<x>"
