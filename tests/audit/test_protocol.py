"""The protocol linter: what is seeded is found, and nothing in clean streams."""

import re
from pathlib import Path

import numpy as np
import pytest
from lint_streams import VIOLATIONS, clean_stream, violated_stream
from typer.testing import CliRunner

from sightline import (
    StreamError,
    compare,
    evaluate,
    export_stream,
    make_detector,
    open_testbed,
    write_results,
    write_stream,
)
from sightline.audit.protocol import Linted, check_trace
from sightline.audit.record import CODES, RANDOM_KEY, Severity
from sightline.cli.app import app
from sightline.evaluation.measure import measure
from sightline.evaluation.result import Protocol
from sightline.rules.scoring import score
from sightline.study.lint import lint

DOCS = Path(__file__).parents[2] / "docs"
PROTOCOL = [code for code in CODES if code.startswith("SL1")]
# Of one stream alone.
OF_STREAMS = [code for code in PROTOCOL if code != "SL115"]


def codes_of(stream):
    found = evaluate(stream, intervals=False, diagnosis=False, metrics="none").findings
    return [one.code for one in found]


def test_there_are_forty_seeded_violations_of_every_code():
    assert len(VIOLATIONS) == 40
    assert {code for code, *_ in VIOLATIONS} == set(OF_STREAMS)


# One of each code here; bench/lint.py measures all forty.
@pytest.mark.parametrize(
    "k",
    [
        next(k for k, (code, *_) in enumerate(VIOLATIONS) if code == wanted)
        for wanted in OF_STREAMS
    ]
    + [2, 5, 6, 15],
)
def test_a_seeded_violation_is_found(k):
    code, stream = violated_stream(k, seed=3)
    assert code in codes_of(stream)


@pytest.mark.parametrize("seed", range(300, 306))
def test_nothing_is_found_in_a_clean_stream(seed):
    assert codes_of(clean_stream(seed)) == []


def test_nothing_serious_is_found_on_waterworks():
    opened = open_testbed("waterworks", days_train=0.3, days_test=0.5, seed=9)
    detector = make_detector("pca", testbed="waterworks").fit(opened.train)
    stream = export_stream(detector, opened.train, opened.test, telemetry=True)
    assert not set(codes_of(stream)) - {"SL106", "SL108", "SL110", "SL111"}


def test_an_attack_that_fills_its_label_is_no_point_adjustment():
    """Every row of these attacks stands out: runs end with the labels by themselves."""
    rng = np.random.default_rng(4)
    base = clean_stream(400)
    test = rng.normal(size=(6000, base.p))
    test[base.labels == 1] += 9.0
    stream = base.replace(test=test, train=rng.normal(size=(5000, base.p)))
    energy = (test**2).sum(axis=1)
    stream = stream.replace(score=energy, alarms=(energy > 60).astype(int))
    assert "SL103" not in codes_of(stream)


# ---- the command


def test_an_error_ends_with_3_and_can_be_ignored(tmp_path):
    path = tmp_path / "adjusted.npz"
    code, stream = violated_stream(7)
    assert code == "SL103"
    write_stream(stream, path)
    told = CliRunner().invoke(app, ["lint", str(path)])
    assert told.exit_code == 3
    assert "SL103 error: " in told.output
    quiet = CliRunner().invoke(app, ["lint", str(path), "--ignore", "SL103,SL111"])
    assert quiet.exit_code == 0
    assert "nothing found" in quiet.output
    wrong = CliRunner().invoke(app, ["lint", str(path), "--ignore", "SL1"])
    assert wrong.exit_code == 1
    assert "There is no code 'SL1'" in wrong.output


def test_a_result_says_what_its_stream_says(tmp_path):
    code, stream = violated_stream(3)
    evaluation = evaluate(stream, intervals=False, diagnosis=False, metrics="none")
    write_results([evaluation], tmp_path / "out")
    write_stream(stream, tmp_path / "one.npz")
    of_stream = lint(tmp_path / "one.npz")[0].findings
    of_result = lint(tmp_path / "out")[0].findings
    assert code in [one.code for one in of_result]
    assert of_stream == of_result


def test_a_plan_is_linted_before_anything_is_run(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[testbeds.waterworks]\nevery = 10\n"
        "[detectors.nsibf]\n"
        "[detectors.tranad]\ntest_scaling = 'own'\n"
        "[detectors.gdn]\nrule = 'best-f1-on-labels'\n"
        "[detectors.mine]\ndetector = 'nowhere:Mine'\n"
    )
    rules = [rule.name for rule in make_detector("gdn").rules if rule.looks_at]
    plan.write_text(plan.read_text().replace("best-f1-on-labels", rules[0]))
    report = lint(plan)[0]
    codes = [one.code for one in report.findings]
    assert codes == ["SL113", "SL102", "SL101", "SL115", "SL115", "SL115"]
    assert report.has_error
    seeds = "seeds = [0, 1, 2]\n" + plan.read_text()
    plan.write_text(seeds)
    assert "SL115" not in [one.code for one in lint(plan)[0].findings]
    assert lint(Path(__file__).parents[2] / "studies/paper.toml")[0].findings == ()
    with pytest.raises(StreamError, match="did you mean 'SL113'"):
        lint(plan, ignore=["SL1113"])


# ---- one table, one page


def test_every_code_has_its_section_on_the_page():
    page = (DOCS / "lint.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (SL\d+) (.*)$", page, flags=re.M))
    assert list(sections) == PROTOCOL
    for code, title in sections.items():
        known = CODES[code]
        assert title == known.title
        slug = f"{code} {title}".lower().replace(" ", "-")
        assert f"| [{code}](#{slug}) | {known.severity} | {title} |" in page
        start = f"## {code} {title}\n\n{known.severity.capitalize()}. {known.effect}"
        assert start in page


def test_codes_keep_their_severity():
    errors = [c for c in PROTOCOL if CODES[c].severity is Severity.ERROR]
    assert errors == ["SL101", "SL102", "SL103", "SL105", "SL113"]


def test_states_that_repeat_by_themselves_are_no_copy_of_train():
    """Three pumps switch by a clock: train and test share rows, and no row was seen."""
    rows = (np.arange(4000)[:, None] // [7, 11, 13]) % 2
    train, test = rows[:2000].astype(float), rows[2002:].astype(float)
    codes = {one.code for one in evaluate(train=train, test=test).findings}
    assert "SL105" not in codes
    fine = np.column_stack([train, np.random.default_rng(0).normal(size=2000)])
    copied = evaluate(train=fine, test=fine[500:1500])
    assert "SL105" in {one.code for one in copied.findings}


def test_no_attack_that_the_judgement_shows_is_said_to_leave_no_trace():
    k = next(k for k, (code, *_) in enumerate(VIOLATIONS) if code == "SL111")
    _, stream = violated_stream(k)
    scored = score(stream, with_windows=True)
    measures = measure(scored, Protocol.SIGHTLINE, guard=0, dropped={})
    (one,) = check_trace(Linted(scored, measures))
    silent = [a.id for a in scored.test.attacks if repr(a.id) in one.text]
    assert silent
    seen = frozenset(silent)
    assert list(check_trace(Linted(scored, measures, seen))) == []


def test_the_only_seed_of_a_random_detector_is_named(tmp_path):
    """Three seeds of one, one seed of another: of streams, results and comparisons."""
    stream = clean_stream(7)
    made = {
        f"{name}-{seed}": evaluate(
            stream.replace(
                name=f"{name}-{seed}",
                detector=name,
                testbed="t",
                meta={"seed": seed} | ({} if name == "var" else {RANDOM_KEY: True}),
            ),
            intervals=False,
            diagnosis=False,
            metrics="none",
        )
        for name, seeds in (("gdn", 3), ("tranad", 1), ("var", 1))
        for seed in range(seeds)
    }
    write_results(list(made.values()), tmp_path / "out")
    named = [
        report.subject
        for report in lint(tmp_path / "out")
        if "SL115" in [one.code for one in report.findings]
    ]
    assert named == ["tranad-0"]
    (said,) = (
        text
        for text in compare(list(made.values()), n_replicates=2).notices
        if "one seed of" in text
    )
    assert said.startswith("t: one seed of tranad.")
