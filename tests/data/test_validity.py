"""Codes of cells, counted in words."""

import re

import numpy as np
import pytest

from sightline.data.validity import CODE_WORDS, Gate, Validity, code_counts


@pytest.mark.parametrize("n_channels", [1, 9, 300])
def test_cells_of_each_code_are_counted_by_tag(n_channels):
    rng = np.random.default_rng(n_channels)
    codes = rng.choice(len(Validity), size=(500, n_channels)).astype(np.int8)
    codes[rng.random(codes.shape) < 0.9] = Validity.GOOD
    names = [f"T{k}" for k in range(n_channels)]
    said = code_counts(codes, names, most=n_channels)
    assert len(said) == len(CODE_WORDS)
    for line, (code, words) in zip(said, CODE_WORDS.items(), strict=True):
        total, rest = re.fullmatch(r"([\d,]+) cells? (.*)\.", line).groups()
        assert int(total.replace(",", "")) == (codes == code).sum()
        counts = dict(re.findall(r"(T\d+) \(([\d,]+)\)", rest.removeprefix(words)))
        wanted = (codes == code).sum(axis=0)
        assert counts == {names[k]: str(n) for k, n in enumerate(wanted) if n}


def test_good_cells_are_watched_and_end_what_was_poor():
    codes = np.zeros((30, 9), np.int8)
    codes[:15, :3] = Validity.BAD
    gate, pieces = Gate(step_s=60.0), []
    for part in np.split(codes, [12, 15, 20]):
        pieces.append(gate.reasons(np.zeros(part.shape), part))
    whole = Gate(step_s=60.0).reasons(np.zeros(codes.shape), codes)
    assert np.concatenate(pieces).tolist() == whole.tolist()
    assert np.flatnonzero(whole).tolist() == [10, 11, 12, 13, 14]
    assert gate.reasons(np.zeros((3, 9)), codes[:3]).tolist() == [0, 0, 0]
