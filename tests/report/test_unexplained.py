"""Unexplained episodes and the ceiling on the page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sightline import ResidualStream, evaluate, write_report
from sightline.report.alarms import HEIGHT, WIDTH, unexplained
from sightline.report.attacks import attack_details
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
    found = unexplained(entry)
    episodes = calm.evaluation.episodes
    assert len(found.rows) == len(episodes) > 0
    assert found.rule == calm.evaluation.rules.chosen
    assert found.budget in found.command
    assert sorted(row.order for row in found.rows) == [*range(1, len(found.rows) + 1)]
    strongest = next(row for row in found.rows if row.order == 1)
    assert strongest.began == "2026-02-03 21:20:00"
    assert strongest.tags == "LIT101"
    for row in found.rows:
        numbers = [float(x) for x in re.findall(r"[-\d.]+", row.path)]
        assert min(numbers) >= 0
        assert max(numbers) <= WIDTH
        assert 0 < row.limit < HEIGHT
        assert 0 <= row.left <= row.left + row.width <= WIDTH + 1


def test_the_page_shows_them_and_a_redacted_one_hides_their_tags(calm, tmp_path):
    page = write_report([calm], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="episodes"' in page
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
    assert unexplained(entry) is None
    (detail,) = attack_details(entry)
    assert detail["ceiling"] == [
        rule.sentence for rule in result.evaluation.segments[0].ceiling.rules
    ]
    page = write_report([result], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="episodes"' not in page
    assert detail["ceiling"][0] in page
