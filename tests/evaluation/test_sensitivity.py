"""How figures move with choices: each setting is an evaluation of its own."""

import json

import numpy as np
import pytest
from strategies import make_stream
from typer.testing import CliRunner

from sightline import (
    ResidualStream,
    StreamError,
    evaluate,
    write_report,
    write_results,
    write_stream,
)
from sightline.cli.app import app
from sightline.evaluation.sensitivity import (
    HEADLINES,
    Sensitivity,
    Tried,
    _standardised,
    sensitivity,
    settings_for,
)
from sightline.figures import FIGURES, Figure
from sightline.show.sensitivity import ranking_lines

PLAIN = {"intervals": False, "diagnosis": False, "metrics": "none", "budget": None}


@pytest.fixture(scope="module")
def streams():
    one = make_stream(name="one", step_s=10.0, strength=2.0)
    rows = np.concatenate(list(one.test.chunks()))
    noise = np.random.default_rng(0).normal(size=rows.shape)
    return [one, one.replace(name="other", test=rows + 0.2 * noise)]


@pytest.fixture(scope="module")
def found(streams):
    return sensitivity(streams)


def test_each_setting_is_an_evaluation_with_these_options(streams, found):
    by_name = {(one.stream, one.setting.name): one.figures for one in found.tried}
    assert not found.notices
    assert len(by_name) == 2 * len(settings_for(10.0))
    for name, options in (
        ("default", {}),
        ("oas", {"estimator": "oas"}),
        ("guard 60 s", {"guard": 6}),
        ("label slop 120 s", {"label_slop_s": 120}),
        ("protocol paper", {"protocol": "paper"}),
    ):
        wanted = evaluate(streams[0], **PLAIN, **options)
        for figure in HEADLINES:
            assert by_name["one", name][figure] == FIGURES[figure].of(wanted)


@pytest.mark.parametrize(
    ("estimator", "same"),
    [
        ("ledoit-wolf", "ledoit-wolf-standardised"),
        ("ledoit-wolf-standardised", "ledoit-wolf-standardised"),
        ("empirical", "empirical"),
        ("minimum-covariance-determinant", "minimum-covariance-determinant"),
    ],
)
def test_units_that_are_not_tried_would_say_the_same(streams, found, estimator, same):
    by_name = {(one.stream, one.setting.name): one.figures for one in found.tried}
    divided = evaluate(_standardised(streams[0]), estimator=estimator, **PLAIN)
    for figure, value in by_name["one", same].items():
        assert FIGURES[figure].of(divided) == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_a_range_holds_every_value_and_names_its_ends(found):
    for row in found.ranges:
        values = {
            one.setting.name: one.figures[row.figure]
            for one in found.tried
            if one.stream == row.stream and one.figures[row.figure] is not None
        }
        assert (row.low, row.high) == (min(values.values()), max(values.values()))
        assert (values[row.low_by], values[row.high_by]) == (row.low, row.high)
        assert row.default == values["default"]


def test_streams_change_places_only_where_one_passes_another():
    rows = [  # ROC-AUC of streams a and b by each setting
        (0.8, 0.7),
        (0.6, 0.9),  # b passes a
        (0.7, 0.7),  # a tie
        (None, 0.9),  # not tried on a
        (0.9, 0.7),
    ]
    settings = settings_for(None)
    tried = tuple(
        Tried(
            stream=stream,
            setting=setting,
            figures=dict.fromkeys(HEADLINES) | {Figure.ROC_AUC: value},
        )
        for setting, values in zip(settings, rows, strict=False)
        for stream, value in zip("ab", values, strict=True)
    )
    changed = Sensitivity(tried=tried).changed_rankings
    assert changed == {Figure.ROC_AUC: (settings[1].name,)}


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_tried_is_said_once_for_all_streams(streams):
    rows = [
        np.concatenate(list(s.chunks())) for s in (streams[0].train, streams[0].test)
    ]
    train, test = (np.c_[one, one[:, 0]] for one in rows)
    both = [ResidualStream(train, test, streams[0].labels, name=name) for name in "ab"]
    empirical, robust = sensitivity(both).notices
    assert empirical.startswith("Not tried on a and b: empirical: ")
    assert robust.startswith("Not tried on a and b: minimum-covariance-determinant: ")


def test_streams_need_names_of_their_own(streams):
    with pytest.raises(StreamError, match="called the same"):
        sensitivity([streams[0], streams[0]])


def test_the_command_writes_table_and_numbers(streams, tmp_path):
    write_stream(streams[0], tmp_path / "one.npz")
    arguments = ["sensitivity", str(tmp_path / "one.npz"), "--out", str(tmp_path / "s")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "s/sensitivity.json").read_text())
    assert {row["figure"] for row in told["ranges"]} >= {"roc_auc", "p_full"}
    for kind in ("csv", "md", "tex"):
        assert "default" in (tmp_path / f"s/sensitivity.{kind}").read_text().lower()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1
    assert "--overwrite" in again.output


def test_the_page_beside_a_sensitivity_shows_it(streams, tmp_path):
    results = [evaluate(one, **PLAIN) for one in streams]
    write_results(results, tmp_path)
    assert "papers rarely state" not in write_report(
        tmp_path, tmp_path / "report.html"
    ).read_text(encoding="utf-8")
    found = sensitivity(streams).to_dict()
    (tmp_path / "sensitivity.json").write_text(json.dumps(found))
    page = write_report(tmp_path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "papers rarely state" in page
    assert any(row["high_by"].replace("-", " ") in page for row in found["ranges"])
    for line in ranking_lines(found):
        assert line in page
    hidden = write_report(tmp_path, tmp_path / "safe.html", redact=True)
    assert "papers rarely state" not in hidden.read_text(encoding="utf-8")
    (tmp_path / "sensitivity.json").write_text("[1")
    assert "papers rarely state" not in write_report(
        tmp_path, tmp_path / "report.html"
    ).read_text(encoding="utf-8")
