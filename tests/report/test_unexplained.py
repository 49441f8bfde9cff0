"""Unexplained episodes and the ceiling on the page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sightline import ResidualStream, evaluate, write_report
from sightline.report.alarms import episodes_table
from sightline.report.attacks import attack_details
from sightline.report.charts import SCORE_HEIGHT as HEIGHT
from sightline.report.charts import SCORE_WIDTH as WIDTH
from sightline.report.entries import entries_of
from sightline.storage import Result

CHANNELS = ("LIT101", "FIT201", "AIT301")


@pytest.fixture(scope="module")
def calm():
    """A record without attacks, with a burst of LIT101 on its second day."""
    rng = np.random.default_rng(8)
    test = rng.normal(size=(25_000, 3))
    test[15_000:15_030, 0] += 12.0
    stream = ResidualStream(
        rng.normal(size=(5000, 3)),
        test,
        channels=CHANNELS,
        test_time=1_770_000_000.0 + 10.0 * np.arange(25_000),
        timezone="Europe/Berlin",
        name="mine",
        testbed="Works",
    )
    return Result(None, evaluate(stream, intervals=False))


def test_every_episode_is_a_row_with_its_picture(calm):
    (entry,) = entries_of([calm])
    table = episodes_table(entry)
    episodes = calm.evaluation.episodes
    assert table.records is episodes
    n = len(episodes)
    assert n > 0
    rows = [{c.key: c.cell(one) for c in table.columns} for one in episodes]
    orders = [row["peak"].notes[0] for row in rows]
    assert sorted(orders) == sorted(f"no. {k} of {n}" for k in range(1, n + 1))
    strongest = rows[orders.index(f"no. 1 of {n}")]
    assert strongest["began"].text == "2026-02-03 21:20:00"
    assert strongest["tags"].text == "LIT101"
    for row in rows:
        drawing = row["score"].drawing
        path = re.search(r' d="([^"]+)"', drawing)[1]
        numbers = [float(x) for x in re.findall(r"[-\d.]+", path)]
        assert min(numbers) >= 0
        assert max(numbers) <= WIDTH
        left, width = (
            float(x)
            for x in re.search(r'<rect x="(.+?)" y="0" width="(.+?)"', drawing).groups()
        )
        assert 0 < float(re.search(r'y1="(.+?)"', drawing)[1]) < HEIGHT
        assert 0 <= left <= left + width <= WIDTH + 1


def test_the_page_shows_them_and_a_redacted_one_hides_their_tags(calm, tmp_path):
    page = write_report([calm], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="episodes"' in page
    rules = calm.evaluation.rules
    assert f"Alarms of rule “{rules.chosen}”, its limit set for {rules.budget}." in page
    assert f"--out review.csv --budget {rules.budget}</code>" in page
    assert page.count('class="episode"') == len(calm.evaluation.episodes)
    assert "2026-02-03 21:20:00" in page
    hidden = write_report([calm], tmp_path / "redacted.html", redact=True)
    text = hidden.read_text(encoding="utf-8")
    assert 'id="episodes"' in text
    assert not [name for name in (*CHANNELS, "2026-02-03") if name in text]


def test_a_rule_without_an_alarm_says_so(calm, tmp_path):
    silent = replace(calm.evaluation, episodes=())
    page = write_report([Result(None, silent)], tmp_path / "page.html")
    assert "raised no alarm in this record" in page.read_text(encoding="utf-8")


def test_a_record_with_attacks_has_a_ceiling_and_no_episodes(tmp_path):
    rng = np.random.default_rng(9)
    test, labels = rng.normal(size=(25_000, 3)), np.zeros(25_000, int)
    test[15_000:15_100, 0] += 4.0
    labels[15_000:15_100] = 1
    stream = ResidualStream(
        rng.normal(size=(5000, 3)), test, labels, channels=CHANNELS, step_s=10.0
    )
    result = Result(None, evaluate(stream, intervals=False, metrics="none"))
    (entry,) = entries_of([result])
    assert episodes_table(entry) is None
    (detail,) = attack_details(entry)
    assert detail["ceiling"] == [
        rule.sentence for rule in result.evaluation.segments[0].ceiling.rules
    ]
    page = write_report([result], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="episodes"' not in page
    assert detail["ceiling"][0] in page
