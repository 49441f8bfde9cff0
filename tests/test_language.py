"""Some words of a private dialect are not used in code, messages and documentation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = {
    "src/sightline": (".py", ".js", ".html", ".css"),
    "docs": (".md",),
    "examples": (".py",),
    "README.md": (".md",),
    "CONTRIBUTING.md": (".md",),
    "CHANGELOG.md": (".md",),
}
# Each with what to write instead.
INSTEAD = {
    "anew": "again",
    "would serve": "would help",
    "so many": "the number, or 'this many'",
    "so-manieth": "every `stride`-th",
    "is told": "is reported",
    "are told": "are reported",
    "whoever": "the caller",
    "stranger": "user code",
    "strangers": "user code",
    "nobody": "no module, no detector ...",
}
PATTERN = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.IGNORECASE)


def files_below(place):
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in files if file.suffix in PLACES[place]]


@pytest.mark.parametrize("place", PLACES)
def test_texts_are_in_plain_english(place):
    files = files_below(place)
    assert files
    hits = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]!r}: write {instead}"
        for file in files
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        for match in PATTERN.finditer(line)
        for instead in [INSTEAD[match[0].lower()]]
    ]
    assert not hits, "\n".join(hits)
