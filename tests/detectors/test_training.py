"""The training loop: repeatable, stoppable, honest about what it did."""

import functools
import gc
import json
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sightline import Recording, Tag, parallel
from sightline.detectors import GDN, FuSAGNet, TranAD, networks
from sightline.detectors.base import read_saved, write_saved
from sightline.detectors.networks import Training, weights_of
from sightline.detectors.preprocessing import Preprocessing, Scaling, forecast_windows
from sightline.detectors.settings import TrainedSettings
from sightline.detectors.tranad.network import TranADNetwork
from sightline.errors import FileError, StreamError, TrainingError

GOLDEN = Path(__file__).parents[1] / "golden"
# About twelve batches an epoch, so that progress is told in the middle of one.
TINY = {
    GDN: {"window": 3, "dim": 4, "top_k": 3, "epochs": 3, "batch_size": 8},
    FuSAGNet: {"window": 3, "dim": 4, "top_k": 3, "epochs": 3, "batch_size": 8},
    TranAD: {"window": 4, "hidden": 4, "epochs": 3, "batch_size": 8},
}
KINDS = pytest.mark.parametrize("kind", list(TINY))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    # Arrays are tiny: a second thread only waits, for long on a busy machine.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plant(seed=0, n=120, stages="AABB", breaks=(0, 70)):
    rng = np.random.default_rng(seed)
    phase = np.arange(n)[:, np.newaxis] / [5, 7, 11, 13] + rng.random(4)
    values = np.sin(phase) + rng.normal(0, 0.1, (n, 4))
    tags = tuple(Tag(name=f"T{k}", stage=stage) for k, stage in enumerate(stages))
    return Recording(values=values, tags=tags, breaks=list(breaks))


def tiny(kind, preset="export", **options):
    return kind(preset, **(TINY[kind] | options))


def outcome(detector):
    """All that training decides: weights, losses and residuals of another run."""
    told = detector.residuals(plant(seed=9))
    history = detector.history
    return weights_of(detector.network) | {
        "residuals": told.values,
        "train": np.array(history.train),
        "validation": np.array(history.validation),
        "best": np.array(history.best_epoch),
    }


@functools.cache
def never_stopped(kind, preset="export"):
    return outcome(tiny(kind, preset).fit(plant()))


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def assert_one_sentence(error, *words):
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    for word in words:
        assert word in text


class Killed(Exception):
    """As Ctrl-C would, but no test runner takes it for its own."""


def killer(calls):
    """Progress that ends a training at the given call, counted from 0."""
    count = iter(range(10**6))

    def progress(step):
        if next(count) == calls:
            raise Killed

    return progress


# ------------------------------------------------------------------------ the seed


@KINDS
@pytest.mark.parametrize("preset", ["export", "official"])
def test_same_seed_gives_the_same_bits_and_another_does_not(kind, preset):
    first, second = (outcome(tiny(kind, preset, seed=s).fit(plant())) for s in (0, 1))
    assert_same(first, never_stopped(kind, preset))
    assert not np.array_equal(first["residuals"], second["residuals"])


def global_state():
    kind, keys, *place = np.random.get_state()  # noqa: NPY002
    return (
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
        random.getstate(),
        (kind, keys.tolist(), *place),
    )


@KINDS
def test_what_is_global_is_left_as_it_was(kind):
    torch.set_num_threads(2)
    before = global_state()
    seen = []
    detector = tiny(kind, threads=1, epochs=1)
    detector.fit(plant(), progress=lambda _: seen.append(torch.get_num_threads()))
    assert global_state() == before
    detector.residuals(plant())
    assert global_state() == before
    assert set(seen) == {1} != {before[1]}
    with pytest.raises(Killed):
        tiny(kind).fit(plant(), progress=killer(1))
    assert global_state() == before
    with pytest.raises(TrainingError):
        tiny(kind, learning_rate=1e30).fit(plant())
    assert global_state() == before
    torch.set_num_threads(1)


@KINDS
def test_global_generators_play_no_part(kind):
    first = outcome(tiny(kind, epochs=1).fit(plant()))
    torch.manual_seed(77)
    random.seed(77)
    np.random.seed(77)  # noqa: NPY002
    assert_same(first, outcome(tiny(kind, epochs=1).fit(plant())))


@KINDS
@pytest.mark.parametrize("preset", ["export", "official"])
def test_residuals_have_the_same_bits_on_any_number_of_cores(kind, preset, monkeypatch):
    # Small chunks, so that every thread evaluates some.
    monkeypatch.setattr(kind, "_inference_chunk", lambda self, settings: 4)
    monkeypatch.setattr(networks, "_CHUNKS_A_CALL", 2)
    recording = plant(seed=9, n=400)
    found, told, working = [], [], set()
    for jobs, threads in ((1, 1), (3, 1), (2, 3)):
        detector = tiny(kind, preset, epochs=1).fit(plant())
        evaluator = detector._evaluator
        detector.overrides |= {"threads": threads}

        def watched(network, settings, evaluator=evaluator):
            evaluate = evaluator(network, settings)

            def call(batch):
                working.add((threading.get_ident(), torch.get_num_threads()))
                time.sleep(0.001)
                return evaluate(batch)

            return call

        monkeypatch.setattr(detector, "_evaluator", watched)
        steps = []
        with parallel.threads(jobs):
            made = detector.residuals(recording, preset=preset, progress=steps.append)
        found.append(made.values)
        told.append([step.done for step in steps])
    assert len({thread for thread, _ in working}) >= 3
    assert {number for _, number in working} == {1}
    for values, done in zip(found[1:], told[1:], strict=True):
        np.testing.assert_array_equal(values, found[0])
        assert done == told[0] == sorted(done)
    assert told[0][-1] == len(found[0])


# ---------------------------------------------------------------- stopped and resumed


@pytest.mark.parametrize("preset", ["export", "official"])
@pytest.mark.parametrize("calls", [1, 4], ids=["first-epoch", "second-epoch"])
@KINDS
def test_a_training_taken_up_again_is_as_one_never_stopped(
    kind, preset, calls, tmp_path
):
    kept = tmp_path / "kept.npz"
    with pytest.raises(Killed):
        tiny(kind, preset).fit(plant(), progress=killer(calls), checkpoint=kept)
    # Told thrice an epoch: nothing is kept before the first one is over.
    assert kept.exists() == (calls > 2)
    again = tiny(kind, preset).fit(plant(), checkpoint=kept)
    assert_same(never_stopped(kind, preset), outcome(again))


@KINDS
def test_a_training_stopped_in_every_epoch(kind, tmp_path):
    options = {"epochs": 4, "patience": None, "lr_factor": 0.5, "lr_every": 2}
    whole = outcome(tiny(kind, **options).fit(plant()))
    kept, stops = tmp_path / "kept.npz", 0
    while True:
        try:
            again = tiny(kind, **options)
            again.fit(plant(), progress=killer(4), checkpoint=kept)
            break
        except Killed:
            stops += 1
    # Each time one epoch is done and the next one is stopped in its middle.
    assert stops == 3
    assert_same(whole, outcome(again))


@pytest.mark.parametrize(
    ("kind", "keep_best"),
    [(GDN, True), (GDN, False), (FuSAGNet, True), (TranAD, True)],
)
def test_taken_up_again_with_early_stopping(kind, keep_best, tmp_path):
    # So high a rate that the held-out loss rises before long.
    options = {
        "epochs": 40,
        "patience": 2,
        "learning_rate": 0.05,
        "keep_best": keep_best,
    }
    whole = tiny(kind, **options).fit(plant())
    epochs, best = whole.history.epochs, whole.history.best_epoch
    assert whole.history.is_over
    assert epochs < 40
    assert epochs == best + 2
    # Stopped in the epoch after the best one: what it was must not be forgotten.
    kept = tmp_path / "kept.npz"
    with pytest.raises(Killed):
        tiny(kind, **options).fit(
            plant(), progress=killer(3 * best + 1), checkpoint=kept
        )
    assert read_saved(kept)[0]["history"]["best_epoch"] == best
    assert_same(
        outcome(whole), outcome(tiny(kind, **options).fit(plant(), checkpoint=kept))
    )


def test_a_finished_training_is_not_trained_again(tmp_path):
    kept, told = tmp_path / "kept.npz", []
    first = tiny(GDN).fit(plant(), checkpoint=kept)
    before = kept.read_bytes()
    again = tiny(GDN).fit(plant(), checkpoint=kept, progress=told.append)
    assert told == []
    assert kept.read_bytes() == before
    assert_same(outcome(first), outcome(again))


def test_one_stopped_early_is_not_trained_again(tmp_path):
    kept, told = tmp_path / "kept.npz", []
    options = {"epochs": 40, "patience": 1, "learning_rate": 0.1}
    first = tiny(GDN, **options).fit(plant(), checkpoint=kept)
    assert first.history.epochs < 40
    again = tiny(GDN, **options).fit(plant(), checkpoint=kept, progress=told.append)
    assert told == []
    assert_same(outcome(first), outcome(again))


KILLS = {
    # In the middle of the second epoch.
    "SIGKILL": """
calls = iter(range(100))
def progress(step):
    if next(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
""",
    # When the second checkpoint is about to take the place of the first.
    "while-writing": """
moves = iter(range(100))
def replace(old, new, replace=os.replace):
    if next(moves) == 1:
        os._exit(9)
    replace(old, new)
os.replace = replace
def progress(step):
    pass
""",
}


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.slow] * (how != "SIGKILL")) for how in KILLS],
)
def test_a_process_killed_for_real(how, tmp_path):
    kept = tmp_path / "kept.npz"
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_training import GDN, plant, tiny
{KILLS[how]}
tiny(GDN).fit(plant(), progress=progress, checkpoint={str(kept)!r})
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    expected = -signal.SIGKILL if how == "SIGKILL" else 9
    assert ended.returncode == expected, ended.stderr
    assert len(read_saved(kept)[0]["history"]["train"]) == 1
    again = tiny(GDN).fit(plant(), checkpoint=kept)
    assert_same(never_stopped(GDN), outcome(again))


# --------------------------------------------------------------- other checkpoints


@pytest.fixture(scope="module")
def kept_training(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "kept.npz"
    tiny(GDN, epochs=1).fit(plant(), checkpoint=path)
    return path


@pytest.mark.parametrize(
    ("kind", "options", "seed"),
    [
        (GDN, {}, 1),
        (GDN, {"seed": 5}, 0),
        (GDN, {"learning_rate": 2e-3}, 0),
        (GDN, {"epochs": 2}, 0),
        (GDN, {"window": 4}, 0),
        (GDN, {"dtype": "float64"}, 0),
        (FuSAGNet, {}, 0),
        (TranAD, {}, 0),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(
    kind, options, seed, kept_training
):
    before = kept_training.read_bytes()
    with pytest.raises(FileError) as error:
        tiny(kind, **({"epochs": 1} | options)).fit(
            plant(seed), checkpoint=kept_training
        )
    assert_one_sentence(error, str(kept_training), "another training", "start again")
    assert kept_training.read_bytes() == before


@pytest.mark.parametrize("stages", ["ABAB", "AAAB"])
def test_a_checkpoint_of_other_stages_is_refused(stages, tmp_path):
    kept = tmp_path / "kept.npz"
    tiny(FuSAGNet, epochs=1).fit(plant(stages="AABB"), checkpoint=kept)
    with pytest.raises(FileError, match="another training"):
        tiny(FuSAGNet, epochs=1).fit(plant(stages=stages), checkpoint=kept)


def test_a_saved_detector_is_no_checkpoint(tmp_path):
    saved = tmp_path / "saved.npz"
    detector = tiny(GDN, epochs=1).fit(plant())
    detector.save(saved)
    with pytest.raises(FileError) as error:
        tiny(GDN, epochs=1).fit(plant(), checkpoint=saved)
    assert_one_sentence(error, str(saved), "is not a checkpoint")


def test_a_checkpoint_is_no_saved_detector(kept_training):
    with pytest.raises(FileError) as error:
        GDN.load(kept_training)
    assert_one_sentence(error, str(kept_training), "training checkpoint")


def refusal(path):
    """What is said of a damaged checkpoint; None if it is taken up all the same."""
    try:
        again = tiny(GDN, epochs=1).fit(plant(), checkpoint=path)
    except FileError as error:
        return str(error)
    assert_same(one_epoch(), outcome(again))
    return None


@functools.cache
def one_epoch():
    return outcome(tiny(GDN, epochs=1).fit(plant()))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(share, kept_training, tmp_path):
    whole, cut = kept_training.read_bytes(), tmp_path / "cut.npz"
    cut.write_bytes(whole[: int(len(whole) * share)])
    text = refusal(cut)
    assert text is not None
    assert text.startswith(str(cut))
    assert "\n" not in text


def test_a_truncated_checkpoint_is_closed_again(kept_training, tmp_path):
    whole, cut = kept_training.read_bytes(), tmp_path / "cut.npz"
    cut.write_bytes(whole[: len(whole) // 2])
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert refusal(cut) is not None
        gc.collect()
    assert [w for w in told if w.category is ResourceWarning] == []


def test_damaged_bytes_of_arrays_are_refused(kept_training, tmp_path):
    whole, hurt = kept_training.read_bytes(), tmp_path / "hurt.npz"
    for name in ("now/embedding.weight", "best/out_layer.mlp.0.bias", "about_json"):
        place = whole.index(f"{name}.npy".encode()) + len(name) + 150
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        hurt.write_bytes(damaged)
        text = refusal(hurt)
        assert text is not None
        assert "\n" not in text


def test_damaged_bytes_are_refused_or_harmless(kept_training, tmp_path):
    whole, hurt = kept_training.read_bytes(), tmp_path / "hurt.npz"
    refused = 0
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        hurt.write_bytes(damaged)
        refused += refusal(hurt) is not None
    assert refused > 30


def test_a_damaged_list_of_arrays_is_refused(kept_training, tmp_path):
    # The archive's list says that its first entry has a comment as long as the rest
    # of it, so that all other arrays are passed over without a word.
    damaged = bytearray(kept_training.read_bytes())
    damaged[damaged.index(b"PK\x01\x02") + 33] = 0x10
    hurt = tmp_path / "hurt.npz"
    hurt.write_bytes(damaged)
    assert refusal(hurt) is not None


@pytest.mark.parametrize("lacking", ["fingerprint", "history"])
def test_a_checkpoint_whose_page_lacks_something(lacking, kept_training, tmp_path):
    about, arrays = read_saved(kept_training)
    hurt = tmp_path / "hurt.npz"
    write_saved(hurt, {k: v for k, v in about.items() if k != lacking}, arrays)
    with pytest.raises(FileError):
        tiny(GDN, epochs=1).fit(plant(), checkpoint=hurt)


def test_a_checkpoint_whose_arrays_lack_something(kept_training, tmp_path):
    about, arrays = read_saved(kept_training)
    hurt = tmp_path / "hurt.npz"
    del arrays["now/embedding.weight"]
    write_saved(hurt, about, arrays)
    with pytest.raises(FileError):
        tiny(GDN, epochs=1).fit(plant(), checkpoint=hurt)


# ------------------------------------------------------- the loop with a known network


class Scripted:
    """One weight that falls steadily; held-out losses are read from a list."""

    least_batch = 1

    def __init__(self, validation=()):
        self.validation, self.batches, self.weights = validation, [], {}

    def loss(self, network, batch, epoch):
        self.batches.append((epoch, batch[:, 0, -1].tolist()))
        return network.weight.sum() * batch.mean()

    def validation_loss(self, network, batch, epoch):
        assert not network.training
        self.weights[epoch] = network.weight.item()
        if self.validation:
            return torch.tensor(self.validation[epoch - 1])
        return batch[:, 0, -1].mean()


def run(objective, *, held_out=(6, 7), progress=lambda _: None, **options):
    """Train one weight on windows of one row each, which tell their own number."""
    values = np.arange(1.0, 9.0)[:, np.newaxis]
    windows = forecast_windows(values, np.array([0]), 1)
    held_out = np.array(held_out, np.int64)
    network = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(network.weight)
    training = Training(
        network=network,
        windows=windows,
        trained=np.setdiff1d(np.arange(8), held_out),
        held_out=held_out,
        objective=objective,
        settings=TrainedSettings(**({"batch_size": 2} | options)),
        title="Scripted",
        progress=progress,
    )
    history = training.run()
    return network.weight.item(), history


@pytest.mark.parametrize(
    ("losses", "patience", "epochs", "best"),
    [
        # Three in a row that are not lower than the lowest.
        ([5, 4, 6, 6, 6, 1], 3, 5, 2),
        # A lower one in between starts the count again.
        ([5, 6, 6, 4, 6, 6, 6, 1], 3, 7, 4),
        # As low as the lowest is not lower.
        ([5, 5, 5, 1], 2, 3, 1),
        # Lower than the one before, but not than the lowest.
        ([1, 9, 8, 7, 0], 3, 4, 1),
        ([3, 2, 1, 0], 1, 4, 4),
        ([3, 4, 0, 0], 1, 2, 1),
        ([1, 2, 3, 4, 5, 6], None, 6, 1),
    ],
)
@pytest.mark.parametrize("keep_best", [True, False])
def test_patience_counts_epochs_that_are_not_strictly_lower(
    losses, patience, epochs, best, keep_best
):
    objective = Scripted([float(loss) for loss in losses])
    weight, history = run(
        objective, patience=patience, epochs=len(losses), keep_best=keep_best
    )
    assert history.epochs == epochs
    assert history.validation == losses[:epochs]
    assert history.best_epoch == best
    assert history.is_over == (patience is not None and epochs - best == patience)
    assert weight == objective.weights[best if keep_best else epochs]


def test_without_a_held_out_block_the_last_weights_are_kept():
    weight, history = run(Scripted(), held_out=(), patience=1, epochs=5)
    assert history.epochs == 5
    assert history.validation == []
    # Adam moves a weight whose gradient is always of one sign by its whole rate.
    assert weight < 1 - 0.9 * 5 * 3 * 1e-3


def test_held_out_loss_is_the_plain_mean_of_the_batches():
    # Batches of 2, 2 and 1: the last one counts as much as the others.
    _, history = run(Scripted(), held_out=(3, 4, 5, 6, 7), epochs=1)
    assert history.validation == [np.mean([np.mean([4, 5]), np.mean([6, 7]), 8])]


def test_train_loss_is_the_plain_mean_of_the_batches():
    # A weight of 1 that never moves: the loss is the mean of each batch.
    _, history = run(
        Scripted(),
        held_out=(5, 6, 7),
        epochs=1,
        learning_rate=0,
        batch_size=3,
        shuffle=False,
    )
    assert history.train == [np.mean([np.mean([1, 2, 3]), np.mean([4, 5])])]


@pytest.mark.parametrize("factor", [0.9, 0.5, 1.0])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_learning_rate_falls_as_torch_lets_it(factor, every, monkeypatch):
    made, rates = [], {}
    make = networks._optimizer
    monkeypatch.setattr(
        networks, "_optimizer", lambda *a: made.append(make(*a)) or made[-1]
    )

    def progress(step):
        rates.setdefault(step.text.split(",")[1], made[0].param_groups[0]["lr"])

    run(
        Scripted(),
        epochs=12,
        learning_rate=0.01,
        lr_factor=factor,
        lr_every=every,
        progress=progress,
    )
    reference = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(reference, every, factor)
    expected = []
    for _ in range(12):
        expected.append(reference.param_groups[0]["lr"])
        reference.step()
        schedule.step()
    np.testing.assert_allclose(list(rates.values()), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("decoupled", "kind"), [(False, torch.optim.Adam), (True, torch.optim.AdamW)]
)
def test_weights_move_as_the_optimiser_says(decoupled, kind):
    options = {"lr": 0.03, "betas": (0.8, 0.95), "weight_decay": 0.2}
    ours, _ = run(
        Scripted(),
        epochs=3,
        shuffle=False,
        learning_rate=0.03,
        betas=(0.8, 0.95),
        weight_decay=0.2,
        decoupled_decay=decoupled,
        keep_best=False,
    )
    weight = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))
    optimiser = kind([weight], **options)
    for _ in range(3):
        for batch in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
            optimiser.zero_grad()
            (weight.sum() * np.mean(batch)).backward()
            optimiser.step()
    assert ours == pytest.approx(weight.item(), rel=1e-12)


def test_windows_come_in_their_order_unless_shuffled():
    plain, drawn = Scripted(), Scripted()
    run(plain, epochs=3, shuffle=False)
    assert [rows for _, rows in plain.batches] == 3 * [[1, 2], [3, 4], [5, 6]]
    run(drawn, epochs=3, shuffle=True)
    orders = [
        [row for epoch, rows in drawn.batches if epoch == e for row in rows]
        for e in (1, 2, 3)
    ]
    assert all(sorted(order) == [1, 2, 3, 4, 5, 6] for order in orders)
    # Drawn again in each epoch.
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize(
    "batch_size",
    [
        1,
        *(2, 4, 5, 6, 100),
    ],
)
def test_progress_is_told_with_the_loss_and_reaches_its_total(batch_size):
    told = []
    run(
        Scripted(),
        epochs=3,
        batch_size=batch_size,
        progress=told.append,
    )
    doing, done, totals = zip(
        *((step.text, step.done, step.total) for step in told), strict=True
    )
    assert all("Training Scripted, epoch " in what for what in doing)
    assert all(np.isfinite(float(what.rpartition("loss ")[2])) for what in doing)
    assert "epoch 1 of 3" in doing[0]
    assert "epoch 3 of 3" in doing[-1]
    assert list(done) == sorted(done)
    assert set(totals) == {3 * -(-6 // batch_size)}
    assert done[0] == 0
    assert done[-1] == totals[-1]


@KINDS
def test_progress_of_a_detector_reaches_its_total(kind, tmp_path):
    told, kept = [], tmp_path / "kept.npz"
    with pytest.raises(Killed):
        tiny(kind).fit(plant(), progress=killer(4), checkpoint=kept)
    detector = tiny(kind).fit(plant(), progress=told.append, checkpoint=kept)
    # Taken up again, it goes on from where it was.
    assert told[0].done == told[0].total / 3
    assert told[-1].done == told[-1].total == max(step.done for step in told)
    told.clear()
    detector.residuals(plant(), progress=told.append)
    assert told[-1].done == told[-1].total
    assert all(a.done < b.done for a, b in pairwise(told))


# --------------------------------------------------------------- which windows


@pytest.fixture
def divided(monkeypatch):
    """Return the rows of each window trained on and held out, as they are given."""

    def of(kind, n=150, breaks=(0, 64), **options):
        got = {}

        def spy(training, *_, **__):
            windows = training.windows
            number = np.rint(windows.values[:, 0] * (n - 1)).astype(int)
            got["rows"] = [
                [tuple(number[s : s + windows.length]) for s in windows.starts[which]]
                for which in (training.trained, training.held_out)
            ]
            return networks.History(train=[0.0], validation=[0.0])

        monkeypatch.setattr(Training, "run", spy)
        known = plant(n=n, breaks=breaks)
        # The first channel tells the number of the row, from 0 to 1.
        values = known.values.copy()
        values[:, 0] = np.arange(n) / (n - 1)
        known = replace(known, values=values)
        detector = tiny(kind, **options).fit(known)
        return *got["rows"], detector

    return of


def all_windows(kind, n=150, breaks=(0, 64)):
    """Every window of train, oldest first; TINY has them of 4 rows."""
    runs = zip(breaks, [*breaks[1:], n], strict=True)
    if kind is TranAD:
        return [
            tuple(max(t - 3 + k, start) for k in range(4))
            for start, stop in runs
            for t in range(start, stop)
        ]
    return [
        tuple(range(s, s + 4)) for start, stop in runs for s in range(start, stop - 3)
    ]


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.2])
@KINDS
def test_windows_are_held_out_in_one_block(kind, stride, share, divided):
    trained, held_out, detector = divided(kind, stride=stride, validation_share=share)
    windows = all_windows(kind)[::stride]
    assert len(held_out) == int(len(windows) * share)
    assert sorted(trained + held_out) == sorted(windows)
    if share:
        start = random.Random(0).randrange(int(len(windows) * (1 - share)))
        assert held_out == windows[start : start + len(held_out)]
    assert trained == [w for w in windows if w not in held_out]
    # What is said of it names the newest row of each window.
    told = detector.split
    for part, steps in ((held_out, told.held_out), (trained, told.trained)):
        # A window that begins with repeated rows is of a warm-up row, and not told.
        assert {w[-1] for w in part if len(set(w)) == len(w)} <= set(steps.tolist())
    assert not set(detector.split.trained) & set(detector.split.held_out)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@KINDS
def test_purged_windows_share_no_row_with_held_out_ones(kind, stride, seed, divided):
    options = {"stride": stride, "seed": seed, "validation_share": 0.2}
    trained, held_out, _ = divided(kind, purge=True, **options)
    rows = [{row for w in windows for row in w} for windows in (trained, held_out)]
    assert not rows[0] & rows[1]
    # No more is left out than the rule needs, and one window beside it.
    plain, same, _ = divided(kind, purge=False, **options)
    assert same == held_out
    left_out = [w for w in plain if w not in trained]
    assert len(left_out) <= 2 * -(-4 // stride)
    if stride < 4:
        assert any(set(w) & rows[1] for w in left_out)


def test_too_few_windows_are_refused():
    with pytest.raises(StreamError) as error:
        tiny(GDN).fit(plant(n=4, breaks=(0,)))
    assert_one_sentence(error, "1 windows of 4 rows", "needs at least 2")
    with pytest.raises(StreamError, match="0 windows of 4 rows"):
        tiny(GDN).fit(plant(n=6, breaks=(0, 3)))


# ----------------------------------------------------------------- what goes wrong


@KINDS
def test_a_loss_that_is_no_number_is_told(kind):
    with pytest.raises(TrainingError) as error:
        tiny(kind, learning_rate=1e30, validation_share=0).fit(plant())
    assert_one_sentence(error, "epoch 1, batch ", "lower learning_rate", "1e+30")
    assert "nan" in str(error.value) or "inf" in str(error.value)


@KINDS
def test_a_held_out_loss_that_is_no_number_is_told(kind):
    # All windows in one batch: its loss is of the weights before their only step.
    with pytest.raises(TrainingError) as error:
        tiny(kind, learning_rate=1e30, batch_size=1000).fit(plant())
    assert_one_sentence(error, "held-out block", "after epoch 1", "learning_rate")


@KINDS
def test_weights_that_are_no_numbers_after_the_last_step_are_told(kind):
    options = {"learning_rate": 1e30, "validation_share": 0.0, "batch_size": 1000}
    with pytest.raises(TrainingError):
        tiny(kind, epochs=1, **options).fit(plant())


@KINDS
def test_infinite_cells_of_train_do_no_harm(kind):
    known = plant()
    values = known.values.copy()
    values[[0, 50], [1, 2]] = np.inf, -np.inf
    known = replace(known, values=values)
    detector = tiny(kind, epochs=1).fit(known)
    told = detector.residuals(known)
    assert np.isfinite(told.values).all()
    assert "2 missing cells" in told.notices[0]


@KINDS
def test_a_last_batch_of_one_window_does_no_harm(kind):
    # One run and no held-out block: n windows in batches of n - 1.
    n = {GDN: 60 - 3, FuSAGNet: 60 - 3, TranAD: 60}[kind]
    options = {"batch_size": n - 1, "validation_share": 0.0, "epochs": 2}
    detector = tiny(kind, **options).fit(plant(n=60, breaks=(0,)))
    assert np.isfinite(detector.history.train).all()
    assert np.isfinite(detector.residuals(plant()).values).all()


@pytest.mark.parametrize("kind", [GDN, TranAD])
def test_batches_of_one_window(kind):
    detector = tiny(kind, batch_size=1, epochs=1).fit(plant())
    assert np.isfinite(detector.history.train).all()


def test_a_device_there_is_not_is_refused():
    for device in ("nonsense", "cuda:99"):
        with pytest.raises(StreamError) as error:
            tiny(GDN, device=device).fit(plant())
        assert_one_sentence(error, repr(device), "'cpu' or 'auto'")


@KINDS
def test_a_fit_that_failed_leaves_no_mixture(kind):
    detector = tiny(kind, epochs=1).fit(plant())
    before = detector.residuals(plant()).values
    with pytest.raises(Killed):
        detector.fit(plant(seed=4), progress=killer(1))
    # Either nothing is told any more, or what was learned first.
    try:
        after = detector.residuals(plant()).values
    except StreamError:
        return
    np.testing.assert_array_equal(after, before)


# --------------------------------------------------------------------- what is told


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_precision_is_as_asked(kind, dtype):
    detector = tiny(kind, dtype=dtype, epochs=1).fit(plant())
    assert {str(p.dtype) for p in detector.network.parameters()} == {f"torch.{dtype}"}
    assert detector.residuals(plant()).values.dtype == dtype


@KINDS
def test_double_precision_comes_near_to_single(kind):
    # Nothing drawn: the draws differ between the precisions.
    options = {"dropout": 0.0, "epochs": 1, "shuffle": False}
    if kind is FuSAGNet:
        options |= {"embedding_dropout": 0.0, "noise_std": 0.0}
    single, double = (
        tiny(kind, dtype=dtype, **options).fit(plant()).residuals(plant()).values
        for dtype in ("float32", "float64")
    )
    assert 0 < abs(single - double).max() < 1e-2


@KINDS
def test_about_tells_all_that_is_needed_to_do_it_again(kind):
    detector = tiny(kind, "official", threads=1, seed=3, betas=(0.8, 0.9), clip=(-1, 2))
    about = json.loads(json.dumps(detector.fit(plant()).about()))
    assert about["detector"] == kind.card.name
    assert about["version"] == kind.card.version
    assert about["preset"] == "official"
    assert about["testbed"] is None
    assert about["torch"] == torch.__version__
    assert about["settings"]["threads"] == 1
    assert about["settings"]["seed"] == 3
    assert about["training"] == {
        "epochs": detector.history.epochs,
        "best_epoch": detector.history.best_epoch,
        "train_loss": detector.history.train,
        "validation_loss": detector.history.validation,
    }
    assert len(about["training"]["train_loss"]) == 3
    # Every setting is there, and makes the same ones again.
    again = kind(**about["settings"]).settings
    assert again == detector.settings


def test_about_is_told_before_anything_is_learned():
    about = json.loads(json.dumps(tiny(GDN).about()))
    assert "training" not in about


# ---------------------------------------------------- the published training, replayed


@pytest.fixture(scope="module")
def published():
    with np.load(GOLDEN / "tranad_train.npz") as file:
        return dict(file)


def part(arrays, prefix):
    return {
        key.removeprefix(prefix): array
        for key, array in arrays.items()
        if key.startswith(prefix)
    }


@pytest.fixture
def replayed(published, monkeypatch):
    """TranAD that starts from the published weights, on rows that are scaled."""

    def of(epochs):
        def build(self, tags):
            return TranADNetwork.of_weights(part(published, "w0/"), dropout=0.0)

        def as_they_are(cls, recording, *_, **__):
            n = len(recording.channels)
            unit = Scaling(offset=np.zeros(n), scale=np.ones(n))
            return cls(scaling=unit, means=np.zeros(n), kept=np.arange(n))

        monkeypatch.setattr(TranAD, "_build", build)
        monkeypatch.setattr(Preprocessing, "fit", classmethod(as_they_are))
        detector = TranAD("official", dropout=0.0, learning_rate=0.008, epochs=epochs)
        return detector.fit(scaled(published["series"]))

    return of


def scaled(values):
    tags = tuple(Tag(name=f"T{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags)


@pytest.mark.parametrize(("epochs", "prefix"), [(1, "w_epoch1/"), (7, "w/")])
def test_the_published_training_of_tranad(epochs, prefix, published, replayed):
    detector = replayed(epochs)
    np.testing.assert_allclose(
        detector.history.train, published["epoch_loss"][:epochs], rtol=0, atol=1e-10
    )
    ours, theirs = weights_of(detector.network), part(published, prefix)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=0, atol=1e-8, err_msg=name)


def test_the_published_residuals_of_tranad(published, replayed):
    detector = replayed(7)
    for name in ("series", "test"):
        rows = published[name]
        told = detector.residuals(scaled(rows), preset="official")
        prediction = published["train_pred" if name == "series" else "test_pred"]
        # Row i of the official output is of the row before it.
        observed = np.vstack([rows[:1], rows[:-1]])
        np.testing.assert_allclose(
            told.values, observed - prediction, rtol=0, atol=1e-8
        )
        assert told.index.tolist() == list(range(len(rows)))
        # Ours is of the row itself: theirs, one row earlier.
        ours = detector.residuals(scaled(rows)).values
        np.testing.assert_allclose(ours[:-1], told.values[1:], rtol=0, atol=1e-12)
