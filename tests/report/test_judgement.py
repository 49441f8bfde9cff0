"""The judgement on the page: chance beside counts, joint verdicts, what is withheld."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from report.plant import PLAIN, QUOTED
from report.recordings import recording_facts
from report.test_data import changed, entry_of, in_use, notes_of
from report.test_page import Parsed, without_plotly

from sightline import write_report
from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.judgement.event_test import Flag
from sightline.judgement.verdicts import Count, Verdict
from sightline.report.attacks import attack_details, attack_groups, matrix
from sightline.report.charts import energy_figure
from sightline.report.entries import entries_of
from sightline.report.overview import (
    EARLIER,
    first_check,
)
from sightline.report.redaction import redacted
from sightline.show.evaluations import OWN, P99, RULE_WORDS, on_rows, rules_of
from sightline.storage import Result
from sightline.text import mean_count, p_value

OLD = Path(__file__).parents[1] / "historic_results"
WITHHELD = "Causes on this stream cannot be told apart: 88% of 1,560 stretches."


def page_of(results, tmp_path, **options):
    path = write_report(results, tmp_path / "page.html", **options)
    return Parsed(without_plotly(path.read_text(encoding="utf-8")))


def unbroken(parsed):
    return " ".join(parsed.text.replace("\N{NO-BREAK SPACE}", " ").split())


def of_works(results, **changes):
    """Return the detectors of one testbed, one seed each, changed by their names."""
    made = {}
    for result in results:
        evaluation = result.evaluation
        name = evaluation.stream.detector
        if evaluation.stream.testbed == "works" and name not in made:
            change = changes.get(name, lambda one: one)
            made[name] = replace(result, evaluation=change(evaluation))
    return list(made.values())


# Chance beside every count


def test_every_count_of_attacks_caught_has_its_chance_beside_it(entries):
    for entry in entries:
        for rule in (OWN, P99):
            if rule not in rules_of(entry.evaluation):
                continue
            attacks = on_rows(entry.evaluation, rule).attacks
            (cell,) = [
                one["caught"]
                for one in in_use(entry)
                if one["rule"].text.startswith(RULE_WORDS[rule])
            ]
            assert cell.values == (attacks.caught, attacks.n_attacks)
            (chance,) = [
                one["by_chance"]
                for one in in_use(entry)
                if one["rule"].text.startswith(RULE_WORDS[rule])
            ]
            assert chance.text == mean_count(attacks.caught_by_chance)
            assert chance.notes == (p_value(attacks.p_value),)


def test_the_page_prints_no_count_of_attacks_caught_alone(results, tmp_path):
    page_of(results, tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    tables = " ".join(
        re.findall(r'<table class="plain stack glance".*?</table>', page, re.S)
    )
    cells = re.findall(
        r'data-label="Caught"(.*?)data-label="False alarms"', tables, re.S
    )
    assert len(cells) >= 5
    assert all('data-label="By chance"' in cell for cell in cells)
    first_screens = re.findall(r'class="huge">\d+ of \d+</span>(.*?)</div>', page, re.S)
    assert first_screens
    assert all("by chance" in rest for rest in first_screens)


def judged_texts(entry):
    return {name: text for name, text, _ in attack_details(entry)[0]["judged"]}


def test_a_rule_that_never_stops_says_so(entries):
    entry = entry_of(entries, PLAIN)
    evaluation = entry.evaluation
    none = Count(count=0, total=6, by_chance=0.0, p_value=1.0)
    standing = changed(
        entry,
        diagnosis=replace(evaluation.diagnosis, is_standing=True, found=none),
        segments=tuple(
            replace(
                segment,
                found=replace(segment.found, is_found=False),
                ladder=segment.ladder
                | {"probe": replace(segment.ladder["probe"], visible=False)},
            )
            for segment in evaluation.segments
        ),
    )
    cell = in_use(standing)[0]["caught"]
    assert any("never stops for long" in note for note in notes_of(cell))
    assert "it never stops for long, so its alarms say little." in first_check(
        standing.evaluation
    )
    for attack in attack_groups([standing]):
        assert attack.rows[0].found.word == "no"
        assert attack.rows[0].found.reason.endswith("caught; the alarm never stops")


# Two questions, confidence, and what it rests on


def test_the_two_questions_have_an_answer_each(entries):
    entry = entry_of(entries, QUOTED)
    for attack in attack_groups([entry]):
        row, segment = attack.rows[0], attack.rows[0].segment
        assert row.found.word == ("yes" if segment.found.is_found else "no")
        assert p_value(segment.found.p_value) in row.found.reason
        if segment.evidence.is_found:
            assert row.evidence.word == "yes"
            assert segment.evidence.statistic in row.evidence.reason
        elif not segment.ladder["probe"].visible:
            repairs = [n for n in segment.ladder if n not in ("own-rule", "probe")]
            shown = any(segment.ladder[name].visible for name in repairs)
            assert row.evidence.word == ("by a repair" if shown else "no")


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (1.0, "sure, 100%"),
        (0.9, "sure, 90%"),
        (0.7, "likely, 70%"),
        (0.6, "may be, 60%"),
    ],
)
def test_confidence_is_a_word_and_a_number(entries, confidence, text):
    entry = entry_of(entries, PLAIN)
    segments = tuple(
        replace(segment, confidence=confidence, alternatives={"threshold": 0.25})
        for segment in entry.evaluation.segments
    )
    entry = changed(entry, segments=segments)
    assert attack_groups([entry])[0].rows[0].confidence == text
    judged = judged_texts(entry)
    assert judged["Confidence"].startswith(text.partition(",")[0])
    assert judged["Confidence"].endswith("else threshold 25%")


def test_details_say_what_an_attack_was_compared_with(entries):
    entry = entry_of(entries, PLAIN)
    first = entry.evaluation.segments[0]
    flags = tuple(Flag)
    few = changed(entry, segments=(replace(first, flags=flags, aftermath_s=900.0),))
    judged = judged_texts(few)
    windows = first.windows
    assert judged["Compared with"] == (
        f"{windows.count} attack-free stretches of 10 min, out of {windows.matched} in "
        f"a similar state, {windows.disjoint} of which do not overlap"
    )
    assert judged["Recovery"] == "15 min after it are not used as attack-free time"
    assert len(judged["Limits"].split("; ")) == len(flags)
    # With few windows no p-value is printed, anywhere.
    bars = attack_details(few)[0]["ladder"]
    row = attack_groups([few])[0].rows[0]
    texts = [*(bar["shown"] for bar in bars), row.found.reason, row.evidence.reason]
    assert not any(re.search(r"\bp [\d<]", text) for text in texts)
    bars = attack_details(entry)[0]["ladder"]
    for bar, outcome in zip(bars, first.ladder.values(), strict=True):
        if outcome.p_value is not None:
            assert p_value(outcome.p_value) in bar["shown"]
            reached = f"95% of them up to {outcome.limit:.0%}"
            assert (reached in bar["note"]) == (outcome.n_blocks is None)
        for way in outcome.ways:
            assert way in bar["shown"]


# Facts of the attack, and the verdict of all detectors


def still(evaluation, **changes):
    """Return an evaluation whose first attack does not move the telemetry."""
    first, *others = evaluation.segments
    facts = AttackFacts(
        id=first.id, movement=Movement.STILL, p_value=0.377, n_windows=200, **changes
    )
    ladder = {n: replace(o, visible=False) for n, o in first.ladder.items()}
    first = replace(
        first, telemetry=facts, ladder=ladder, verdict=Verdict.NOT_IN_TELEMETRY
    )
    return replace(evaluation, segments=(first, *others))


def detecting(evaluation):
    """Return an evaluation whose rule detects its first attack, which is still."""
    seen = evaluation.segments[0]
    first, *others = still(evaluation).segments
    first = replace(first, ladder=seen.ladder, verdict=Verdict.DETECTED)
    assert any(outcome.visible for outcome in first.ladder.values())
    return replace(evaluation, segments=(first, *others))


def test_who_detects_an_attack_vetoes_not_in_telemetry(results, tmp_path):
    seen = of_works(results, **{PLAIN: still, QUOTED: detecting})
    entries = entries_of(seen)
    words = {
        row.entry.label: row.verdict.word for row in attack_groups(entries)[0].rows
    }
    assert words == {
        PLAIN: Verdict.WEAK_EVIDENCE,
        QUOTED: Verdict.DETECTED,
        "mean": "not-diagnosed",
    }
    detectors, (first, *_) = matrix(entries)
    cells = {e.label: e.verdicts[first.places[e.label]].word for e in detectors}
    assert cells == words
    plain = entry_of(entries, PLAIN)
    assert energy_figure(plain, None)["attacks"][0]["verdict"] == words[PLAIN]
    counted = {info.word: count for info, count in plain.verdict_counts}
    assert counted == Counter(info.word for info in plain.verdicts)
    assert Verdict.WEAK_EVIDENCE in counted
    text = unbroken(page_of(seen, tmp_path))
    note = f"does not show this attack, but {QUOTED} detects it."
    # Once among the facts of the attack, once in the opened row.
    assert text.count(note) == 2


def test_without_a_veto_all_detectors_say_the_same(results, tmp_path):
    seen = of_works(results, **{PLAIN: still, QUOTED: still})
    attack = attack_groups(entries_of(seen))[0]
    words = {row.entry.label: row.verdict.word for row in attack.rows}
    assert words[PLAIN] == words[QUOTED] == Verdict.NOT_IN_TELEMETRY
    assert attack.notes == ["None of 2 detectors shows it."]
    assert attack.telemetry.word == "still, p 0.38"
    assert attack.telemetry.reason == "not told from 200 attack-free stretches"
    assert "nothing to see" not in unbroken(page_of(seen, tmp_path)).lower()


def test_facts_of_an_attack_are_there_once_for_all_detectors(results, tmp_path):
    moving = {
        "movement": Movement.MOVES,
        "p_value": 0.005,
        "channels": ("LIT101", "P101"),
        "onset_s": 20.0,
        "aftermath_s": 1800.0,
    }

    def known(evaluation):
        first, *others = still(evaluation).segments
        facts = replace(first.telemetry, moves_in_truth=False, **moving)
        first = replace(first, telemetry=facts)
        return replace(evaluation, segments=(first, *others))

    seen = of_works(results, **{PLAIN: known, QUOTED: known})
    attack = attack_groups(entries_of(seen))[0]
    assert attack.telemetry.word == "moves, p 0.005"
    assert attack.telemetry.reason == "most in LIT101 and P101, 20 s after its start"
    assert attack.truth == "by the simulator it moves nothing recorded"
    assert (attack.lasted, attack.aftermath) == ("10 min", "30 min")
    text = unbroken(page_of(seen, tmp_path))
    assert text.count("most in LIT101 and P101, 20 s after its start") == 1
    assert text.count(attack.truth) == 1


def test_an_undecided_attack_names_its_candidates(entries):
    entry = entry_of(entries, PLAIN)
    first = replace(
        entry.evaluation.segments[0],
        verdict=Verdict.UNDECIDED,
        confidence=0.42,
        alternatives={"drift": 0.45, "threshold": 0.42, "quiet": 0.13},
    )
    undecided = changed(entry, segments=(first,))
    row = attack_groups([undecided])[0].rows[0]
    assert row.confidence == "drift 45% or threshold 42%"


def test_what_only_the_p99_rule_shows_is_evidence(entries):
    entry = entry_of(entries, QUOTED)
    first = entry.evaluation.segments[0]
    ladder = {n: replace(o, visible=n == "probe") for n, o in first.ladder.items()}
    missed = replace(
        first, ladder=ladder, evidence=replace(first.evidence, is_found=False)
    )
    row = attack_groups([changed(entry, segments=(missed,))])[0].rows[0]
    assert (row.evidence.word, row.evidence.reason) == ("yes", "by the p99 rule")


def test_facts_of_another_record_are_named_where_they_differ(results, tmp_path):
    def moving(evaluation):
        first, *others = still(evaluation).segments
        facts = replace(first.telemetry, movement=Movement.MOVES, p_value=0.03)
        first = replace(first, telemetry=facts, verdict=Verdict.WEAK_EVIDENCE)
        return replace(evaluation, segments=(first, *others))

    seen = of_works(results, **{PLAIN: still, QUOTED: moving})
    attack = attack_groups(entries_of(seen))[0]
    assert attack.telemetry.word == "moves, p 0.03"
    notes = {row.entry.label: row.telemetry_note for row in attack.rows}
    assert notes[QUOTED] == notes["mean"] == ""
    assert notes[PLAIN].endswith("attack-free stretches: moves, p 0.03.")
    words = {row.entry.label: row.verdict.word for row in attack.rows}
    assert words[PLAIN] == words[QUOTED] == Verdict.WEAK_EVIDENCE
    own = next(row for row in attack.rows if row.entry.label == PLAIN)
    assert own.confidence.startswith("alone not-in-telemetry: ")
    assert notes[PLAIN] in unbroken(page_of(seen, tmp_path))


# What is withheld, and what is old


def test_withheld_advice_is_explained_and_not_given(results, tmp_path):
    def withheld(evaluation):
        facts = evaluation.diagnosis
        facts = replace(facts, advice=None, advice_withheld=WITHHELD)
        return replace(evaluation, diagnosis=facts)

    before = of_works(results)
    repairs = [r.evaluation.repairs or {} for r in before]
    advice = {one.sentence for each in repairs for one in each.values()} - {""}
    seen = of_works(results, **{PLAIN: withheld, QUOTED: withheld})
    for result in seen:
        if result.evaluation.diagnosis:
            assert WITHHELD in first_check(result.evaluation)
    text = unbroken(page_of(seen, tmp_path))
    assert WITHHELD in text
    assert advice
    assert not [one for one in advice if one in text]


@pytest.mark.parametrize("folder", sorted(OLD.iterdir()), ids=lambda path: path.name)
def test_results_of_earlier_rules_render_and_say_so(folder, tmp_path):
    parsed = page_of(folder, tmp_path)
    text = unbroken(parsed)
    assert EARLIER in text
    assert "verdicts by earlier rules" in text
    assert "not counted in results so old" in text
    assert "by earlier rules: evaluate the stream again" in text
    rows = [a for tag, a in parsed.elements if a.get("class") == "attack"]
    assert rows
    assert {row["data-verdict"] for row in rows} != {"not-diagnosed"}


def test_present_results_carry_no_notice_of_earlier_rules(results, tmp_path):
    assert EARLIER not in unbroken(page_of(results, tmp_path))


def test_redaction_reaches_the_facts_of_attacks(results, tmp_path):
    def secret(evaluation):
        first, *others = evaluation.segments
        facts = AttackFacts(
            id=first.id,
            movement=Movement.MOVES,
            p_value=0.005,
            n_windows=200,
            channels=("HUSHED_TAG", "LIT101"),
        )
        sentence = "But the telemetry moves, most in HUSHED_TAG and LIT101."
        first = replace(first, telemetry=facts, sentence=sentence)
        recorded = recording_facts()
        other = replace(facts, id="other", channels=("HUSHED_TOO",))
        return replace(
            evaluation,
            segments=(first, *others),
            recording=replace(recorded, attacks=(facts, other)),
        )

    seen = of_works(results, **{PLAIN: secret})
    shown = unbroken(page_of(seen, tmp_path))
    assert "most in HUSHED_TAG and LIT101" in shown
    loaded = [Result.of(result.evaluation) for result in seen]
    path = write_report(loaded, tmp_path / "redacted.html", redact=True)
    page = without_plotly(path.read_text(encoding="utf-8"))
    assert "HUSHED" not in page
    hidden, names = redacted(loaded)
    facts = [r.evaluation.recording for r in hidden if r.evaluation.recording]
    assert facts
    assert all(one.attacks[1].channels == (names.name("HUSHED_TOO"),) for one in facts)
    assert names.name("HUSHED_TOO").startswith("CH-")
    assert "LIT101" not in page
    assert re.search(r"most in CH-\d{3} and CH-\d{3}", page)
