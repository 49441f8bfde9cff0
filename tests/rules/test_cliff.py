"""No cliff: a budget a twentieth larger changes limits and counts by at most 1.3."""

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sightline import (
    Budget,
    ResidualStream,
    commission,
    export_stream,
    make_detector,
    open_testbed,
)
from sightline.cli.app import app
from sightline.metrics.alarm_load import Delays
from sightline.rules.commission import Basis
from sightline.rules.judging import judge_in_use, run_family
from sightline.rules.making import Fitting, RuleMaker
from sightline.rules.normal import raw_rows
from sightline.rules.scoring import score

GECCO = Path(__file__).parents[3] / "shared/data/gecco"
RULES, MEMBERS = ("energy", "z", "x~", "rows"), ("energy", "z", "x~", "x")
# Around ten allowed alarms, where the largest peaks once gave way to the count.
ALLOWED = 10 * 1.05 ** np.arange(-6, 7)
MOST = 1.3


def contaminated(stream):
    """Return the same, of which the first rows of each incident are said to be normal.

    As where labels begin late; and a few glitches that nobody has seen.
    """
    labels = stream.labels.copy()
    for attack in stream.attack_segments():
        labels[attack.start : attack.start + 3] = 0
    rows = np.concatenate([np.asarray(part) for part in stream.test.chunks()])
    spread = np.asarray(rows[:2000]).std(axis=0)
    for k, row in enumerate(range(1000, 8000, 1400)):
        rows[row, k % stream.p] += 10 ** (k + 1) * spread[k % stream.p]
    return stream.replace(test=rows, labels=labels, label_slop_s=0.0)


@pytest.fixture(scope="module")
def made_up():
    rng = np.random.default_rng(3)
    train, test = (rng.standard_t(5, size=(n, 5)) for n in (6000, 40_000))
    labels = np.zeros(len(test), np.int8)
    for k, start in enumerate(range(1500, 39_000, 1500)):
        test[start : start + 40, k % 5] += rng.uniform(20, 2000)
        labels[start : start + 40] = 1
    return ResidualStream(train, test, labels, channels="abcde", step_s=60.0)


@pytest.fixture(scope="module")
def gecco(tmp_path_factory):
    """Residuals of VAR on a drinking-water works, with its incidents."""
    if not (GECCO / "vorfaelle.csv").is_file():
        pytest.skip("../shared/data/gecco is missing")
    folder = tmp_path_factory.mktemp("gecco")
    rows = gzip.decompress((GECCO / "export_2016.csv.gz").read_bytes())
    export = folder / "export.csv"
    export.write_bytes(b"".join(rows.splitlines(keepends=True)[:80_001]))
    words = ["start", str(export), "--timezone", "Europe/Berlin", "--out"]
    words += [str(folder / "plant"), "--split", "2016-08-20"]
    words += ["--incidents", str(GECCO / "vorfaelle.csv")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    plant = open_testbed(folder / "plant", cache=False)
    detector = make_detector("var").fit(plant.train)
    return export_stream(detector, plant.train, plant.test)


@pytest.mark.parametrize("kind", [lambda stream: stream, contaminated])
@pytest.mark.parametrize("name", ["made_up", "gecco"])
def test_a_slightly_larger_budget_changes_little(name, kind, request):
    scored = score(kind(request.getfixturevalue(name)))
    stream = scored.stream
    basis = Basis.of(scored, int(0.35 * stream.test.n_rows))
    period = basis.period(with_calibration=False, with_train=False)
    fitting = Fitting(basis.normal, MEMBERS, period)
    rows = np.concatenate([np.asarray(p) for p in raw_rows(stream.test).chunks()])
    found = {rule: [] for rule in RULES}
    for allowed in ALLOWED:
        budget = Budget(per_day=allowed / period.days)
        maker = RuleMaker(fitting, budget, Delays.of_step(basis.step_s))
        rules = {rule: maker.make(rule).rule for rule in RULES}
        judged = basis.judged
        runs = run_family(maker.family, rules, rows[basis.split :], judged)
        for rule, run in runs.items():
            # A joined rule is as high as its lowest member.
            limit = rules[rule].limit * min(m.limit for m in rules[rule].members)
            found[rule].append((limit, judge_in_use(run, judged).load.alarms))
    for rule in RULES:
        for (limit, n_alarms), (lower, more) in pairwise(found[rule]):
            assert 1 / MOST < limit / lower < MOST
            # Where there are few alarms one or two more are no cliff.
            assert n_alarms / MOST - 3 <= more <= n_alarms * MOST + 3


def test_the_guard_is_what_a_minute_around_attacks_changes():
    """Late labels of attacks that are not far enough out to be left out."""
    rng = np.random.default_rng(4)
    train, test = (rng.standard_t(5, size=(n, 5)) for n in (6000, 40_000))
    labels = np.zeros(len(test), np.int8)
    for start in range(700, 39_000, 700):
        test[start : start + 40] += 5.0
        labels[start + 1 : start + 40] = 1
    late = ResidualStream(
        train, test, labels, channels="abcde", step_s=60.0, label_slop_s=0.0
    )
    lines = commission(late).facts.choice.lines
    ignored = labels.copy()
    for start in range(700, 39_000, 700):
        ignored[start] = -1
    others = {
        x.name: x for x in commission(late.replace(labels=ignored)).facts.choice.lines
    }
    assert max(line.guard for line in lines) > 1.05
    for line in lines:
        ratio = line.limit / others[line.name].limit
        assert line.guard == pytest.approx(max(ratio, 1 / ratio), rel=1e-9)
        assert others[line.name].guard == 1.0
