"""Cards: what they hold, and that no forged figure passes."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from strategies import make_stream
from typer.testing import CliRunner

from sightline import evaluate, write_results, write_stream
from sightline.cards import (
    card_of_result,
    read_card_file,
    verify_card,
    write_card_file,
)
from sightline.cards.card import digest_of, row_digests
from sightline.cli.app import app
from sightline.errors import FileError
from sightline.figures import Figure
from sightline.storage import Result

# What needs every energy, or the residuals: from the card alone it is only bounded.
NOT_FROM_THE_CARD = {
    Figure.COMPACTNESS,
    Figure.D_DRIFT,
    Figure.D_DRIFT_ROBUST,
    Figure.MAX_Z,
    Figure.EXCESS_KURTOSIS,
    Figure.CHI_SQUARE_TAIL,
    Figure.CHI_SQUARE_TAIL_TEST,
    Figure.CHI_SQUARE_VARIANCE,
    Figure.CHI_SQUARE_VARIANCE_TEST,
}
OF_EVERY_ENERGY = {
    *("best_f1", "best_pa_f1", "pa_average_precision", "vus_roc", "vus_pr"),
    *("r_auc_roc", "r_auc_pr", "pate"),
}


@pytest.fixture(scope="module")
def stream():
    made = make_stream(name="one", step_s=10.0, strength=2.0)
    rows = np.concatenate(list(made.test.chunks()))
    # Rows that are repeated: ties within attacks, and of attack and normal rows.
    rows[7] = rows[5] = rows[int(np.argmax(made.labels))]
    rows[int(np.argmax(made.labels)) + 1] = rows[7]
    return made.replace(test=rows)


@pytest.fixture(scope="module")
def card(stream):
    result = Result.of(evaluate(stream, diagnosis=False))
    return card_of_result(result, made_by="A lab", licence="CC-BY-4.0")


def test_a_card_agrees_with_itself_and_with_its_stream(card, stream):
    alone, both = verify_card(card), verify_card(card, stream)
    assert not alone.contradictions
    assert not both.contradictions
    assert set(alone.bounded) == {*NOT_FROM_THE_CARD, *OF_EVERY_ENERGY} & set(
        card.figures
    )
    assert not both.bounded
    assert {Figure.ROC_AUC, Figure.PAUC_1, Figure.AVERAGE_PRECISION} < set(
        alone.computed
    )
    assert len(alone.computed) > 35


def forged(card, **changes):
    """Return a card with other figures and the digest that fits them."""
    return replace(card, **changes).sealed()


def test_every_figure_that_is_forged_by_a_hundredth_is_named(card, stream):
    alone, again = set(verify_card(card).computed), verify_card(card, stream)
    for key, value in card.figures.items():
        figures = dict(card.figures) | {key: 1.01 * value if value else 0.01}
        told = forged(card, figures=figures)
        if key in alone or key == Figure.COMPACTNESS:
            # The ratio contradicts p_eff, whichever of the two was forged.
            wanted = Figure.P_EFF if key == Figure.COMPACTNESS else key
            assert wanted in {one.what for one in verify_card(told).contradictions}, key
    assert set(again.computed) == set(card.figures)
    # With the stream all others too; one evaluation for all of them.
    others = {
        key: 1.01 * value if value else 0.01
        for key, value in card.figures.items()
        if key not in alone
    }
    told = verify_card(forged(card, figures=dict(card.figures) | others), stream)
    assert set(others) <= {one.what for one in told.contradictions}


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("auc", "attack {id}: auc"),
        ("coverage", "attack {id}: coverage"),
        ("d_full", "median_d_full"),
        ("n_outweighed", "p_full"),
        ("start", "ranks"),
    ],
)
def test_what_is_forged_of_an_attack_is_named(card, field, what):
    middle = sorted(card.attacks, key=lambda a: a.d_full)[len(card.attacks) // 2]
    value = getattr(middle, field)
    other = value - 1 if isinstance(value, int) else 1.01 * value
    attacks = tuple(
        replace(one, **{field: other}) if one is middle else one for one in card.attacks
    )
    told = verify_card(forged(card, attacks=attacks)).contradictions
    assert what.format(id=middle.id) in {one.what for one in told}


def test_alarms_ranks_and_labels_that_are_forged_contradict_figures(card):
    alarms = dict(card.alarms) | {"p99": card.alarms["p99"][1:]}
    assert verify_card(forged(card, alarms=alarms)).contradictions
    (first, *steps), n = card.ranks.steps, card.stream.n_test
    ranks = replace(card.ranks, steps=(first + 5, steps[0] - 5, *steps[1:]))
    if steps[0] >= 5:
        told = verify_card(forged(card, ranks=ranks)).contradictions
        assert Figure.ROC_AUC in {one.what for one in told}
    told = verify_card(forged(card, ignored=((n - 3, n),))).contradictions
    assert "attack-free rows" in {one.what for one in told}


def test_a_card_that_was_changed_without_its_digest_is_named(card):
    told = verify_card(replace(card, licence="none")).contradictions
    assert [one.what for one in told] == ["digest"]
    assert told[0].follows == digest_of(replace(card, licence="none"))


def test_another_stream_or_other_labels_are_named(card, stream):
    rows = np.concatenate(list(stream.test.chunks()))
    told = verify_card(card, stream.replace(test=np.roll(rows, 1, axis=0)))
    whats = {one.what for one in told.contradictions}
    assert {"digest of energy", Figure.ROC_AUC} <= whats
    assert "digest of labels" not in whats
    labels = np.roll(np.asarray(stream.labels), 3)
    told = verify_card(card, stream.replace(labels=labels))
    assert {"digest of labels", "attacks"} <= {one.what for one in told.contradictions}


def test_digests_are_of_the_values_whatever_their_type():
    labels, energy = np.array([0, 1, -1, 0]), np.array([0.0, 1.5, 2.5, -0.0])
    wanted = row_digests(labels, energy)
    assert row_digests(labels.astype(np.int8), np.array([0.0, 1.5, 2.5, 0.0])) == wanted
    assert row_digests(labels, energy.astype(">f8")) == wanted
    assert row_digests(labels, energy[::-1]) != wanted
    assert row_digests(np.roll(labels, 1), energy)["labels"] != wanted["labels"]


def test_the_same_card_is_the_same_bytes_and_reads_back(card, tmp_path):
    one, other = tmp_path / "one.json.gz", tmp_path / "other.json.gz"
    write_card_file(card, one)
    write_card_file(read_card_file(one), other)
    assert one.read_bytes() == other.read_bytes()
    assert read_card_file(one) == card
    # Neither telemetry nor residuals: the rows of a test are not in it.
    said = json.loads(gzip.decompress(one.read_bytes()))
    assert "energy" not in said
    assert len(said["ranks"]["attack"]) == said["stream"]["n_attack"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no card", "not compressed JSON"),
        (gzip.compress(b"{}"), "is no card of schema 1: "),
        (gzip.compress(b"[" * 100_000), "is no card of schema 1: "),
        (gzip.compress(b"{}")[:-9], "not compressed JSON"),
    ],
    # Compressed bytes hold the time: as names of tests they would differ by process.
    ids=["text", "an empty object", "deep", "cut off"],
)
def test_what_is_no_card_is_refused(content, words, tmp_path):
    (tmp_path / "card.json.gz").write_bytes(content)
    with pytest.raises(FileError, match=words):
        read_card_file(tmp_path / "card.json.gz")


def test_runs_that_cannot_be_are_named_and_nothing_breaks(card):
    for changes in (
        {"ignored": ((5, 2),)},
        {"ignored": ((0, 10**9),)},
        {"alarms": {"p99": ((9, 3),)}},
        {"attacks": ()},
        {"ranks": replace(card.ranks, attack=(-1,) * len(card.ranks.attack))},
        {"ranks": replace(card.ranks, attack=(10**15, *card.ranks.attack[1:]))},
        {"ranks": replace(card.ranks, repeats=(10**9,))},
        {"stream": replace(card.stream, n_test=10**18)},
        {"stream": replace(card.stream, step_s=0.0)},
        {"breaks": (0, 10**12)},
        {"breaks": ()},
        {"ranks": replace(card.ranks, steps=card.ranks.steps[1:])},
    ):
        assert verify_card(forged(card, **changes)).contradictions, changes


def test_the_commands(stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_stream(stream, "one.npz")
    write_results([evaluate(stream, diagnosis=False)], "result")

    def invoke(*words):
        return CliRunner().invoke(app, list(words))

    told = invoke("card", "result", "--by", "A lab")
    assert told.exit_code == 0, told.output
    assert invoke("card", "result").exit_code == 1
    assert invoke("verify", "card.json.gz").exit_code == 0
    told = invoke("verify", "card.json.gz", "one.npz")
    assert told.exit_code == 0, told.output
    assert "nothing is contradicted" in told.output
    card = read_card_file(tmp_path / "card.json.gz")
    figures = dict(card.figures) | {"roc_auc": 1.01 * card.figures["roc_auc"]}
    write_card_file(forged(card, figures=figures), tmp_path / "forged.json.gz")
    told = invoke("verify", "forged.json.gz")
    assert told.exit_code == 3
    assert told.output.startswith("roc_auc: the card says ")


def test_a_record_without_attacks_has_no_card(stream):
    plain = stream.replace(labels=np.zeros(stream.test.n_rows, int))
    with pytest.raises(FileError, match="nothing to put on a card"):
        card_of_result(Result.of(evaluate(plain, diagnosis=False)))
