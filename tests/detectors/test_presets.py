"""Official against export, and every option of the three networks."""

import functools
import json
import sys
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from sightline import Recording, Tag
from sightline.data.arrays import require
from sightline.detectors import GDN, FuSAGNet, TranAD, load_detector, make_detector
from sightline.detectors.base import FORMAT
from sightline.detectors.fusagnet import stage_order
from sightline.detectors.networks import weights_of
from sightline.errors import FileError, MissingExtraError, StreamError
from sightline.export import export_stream

TINY = {
    GDN: {"window": 3, "dim": 4, "top_k": 3, "epochs": 1},
    FuSAGNet: {"window": 3, "dim": 4, "top_k": 3, "epochs": 1},
    TranAD: {"window": 4, "hidden": 4, "epochs": 1},
}
KINDS = pytest.mark.parametrize("kind", list(TINY))


def changed(recording, cells, values):
    """Return a recording with some cells replaced; its own arrays are read-only."""
    table = recording.values.copy()
    table[cells] = values
    return replace(recording, values=table)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    # Arrays are tiny: a second thread only waits, for long on a busy machine.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plant(seed=0, n=120, stages="AABBB", breaks=(0,), **known):
    rng = np.random.default_rng(seed)
    channels = len(stages)
    phase = np.arange(n)[:, np.newaxis] / np.arange(5, 5 + 2 * channels, 2)
    values = np.sin(phase + rng.random(channels)) + rng.normal(0, 0.1, (n, channels))
    tags = tuple(Tag(name=f"T{k}", stage=stage) for k, stage in enumerate(stages))
    return Recording(values=values, tags=tags, breaks=list(breaks), **known)


@functools.cache
def fitted(kind, preset="export", **options):
    return kind(preset, **(TINY[kind] | options)).fit(plant())


# ------------------------------------------------------------------- FuSAGNet's loops


def same_row_again_and_again(n=100):
    """One and the same window at every place of a batch."""
    known = plant()
    values = np.repeat(known.values[50:51], n, axis=0)
    return replace(known, values=values, labels=None)


def test_official_fusagnet_depends_on_the_place_in_the_batch():
    detector = fitted(FuSAGNet, batch_size=16)
    still = same_row_again_and_again()
    told = detector.residuals(still, preset="official").values
    place = np.arange(len(told)) % 16
    others = told[place == 5]
    # All windows are one: whatever differs is due to their place.
    np.testing.assert_allclose(told[place > 0], others[0] + 0 * told[place > 0])
    first = abs(told[place == 0] - others[0])
    # The first `window` channels of each batch's first window, and no others.
    assert (first[:, :3] > 1e-6).all()
    np.testing.assert_allclose(first[:, 3:], 0, atol=1e-7)


def test_exported_fusagnet_does_not():
    told = fitted(FuSAGNet, batch_size=16).residuals(same_row_again_and_again())
    np.testing.assert_allclose(told.values, told.values[:1] + 0 * told.values)
    # Nor do rows depend on how many come after them.
    whole = fitted(FuSAGNet).residuals(plant(1)).values
    start = replace(plant(1), values=plant(1).values[:50], labels=None)
    few = fitted(FuSAGNet).residuals(start).values
    np.testing.assert_allclose(few, whole[: len(few)], atol=1e-6)


@pytest.mark.parametrize("preset", ["export", "official"])
def test_loops_asked_for_go_before_the_preset(preset):
    # The weights are those of one training; loops alone differ.
    told = {}
    for loops in ("none", "all", "official"):
        detector = fitted(FuSAGNet, self_loops=loops)
        detector.network.load_state_dict(fitted(FuSAGNet).network.state_dict())
        told[loops] = detector.residuals(plant(1), preset=preset).values
    as_set = fitted(FuSAGNet).residuals(plant(1), preset=preset).values
    expected = "none" if preset == "export" else "official"
    np.testing.assert_array_equal(as_set, told[expected])
    assert abs(told["all"] - told["none"]).max() > 1e-6


# -------------------------------------------------------------------- TranAD's lateness


@pytest.mark.parametrize("exported", ["second", "first"])
def test_official_tranad_is_a_row_late(exported):
    detector = fitted(TranAD, exported=exported)
    known = plant(1)
    ours, theirs = (detector.residuals(known, preset=p) for p in ("export", "official"))
    np.testing.assert_allclose(ours.values[:-1], theirs.values[1:], atol=1e-6)
    # Official rows 0 and 1 have the same window: nothing but the first row.
    np.testing.assert_allclose(theirs.values[0], theirs.values[1], atol=1e-6)
    assert ours.index.tolist() == theirs.index.tolist() == list(range(120))
    assert np.flatnonzero(ours.is_warm_up).tolist() == [0, 1, 2]
    assert np.flatnonzero(theirs.is_warm_up).tolist() == [0, 1, 2, 3]


def by_network(detector, known):
    """TranAD's two residuals, window by window through its network."""
    scale = detector._preprocessing.scaling
    x = ((known.values - scale.offset) / scale.scale).astype(np.float32)
    window, found = detector.settings.window, []
    detector.network.eval()
    for t in range(len(x)):
        rows = torch.from_numpy(x[[max(t - window + 1 + k, 0) for k in range(window)]])
        with torch.no_grad():
            first, second = detector.network(rows[None])
        found.append([x[t] - first[0].numpy(), x[t] - second[0].numpy()])
    return np.array(found).transpose(1, 0, 2)


def test_tranad_exports_the_reconstruction_asked_for():
    known = plant(1, n=40)
    first, second = by_network(fitted(TranAD), known)
    assert abs(first - second).max() > 1e-3
    for exported, expected in (("first", first), ("second", second)):
        detector = TranAD(**TINY[TranAD], exported=exported).fit(plant())
        told = detector.residuals(known).values
        np.testing.assert_allclose(told, expected, atol=1e-5)


def test_masked_decoders_never_see_the_row_they_rebuild(monkeypatch):
    # The encoder sees it still; what the decoders are asked with is the row before.
    detector = fitted(TranAD, mask_target=True)
    shown = []
    forward = detector.network.forward
    monkeypatch.setattr(
        detector.network,
        "forward",
        lambda x, target: shown.append((x, target)) or forward(x, target),
    )
    detector.residuals(plant(1, n=30))
    x, target = shown[0]
    assert x.shape == (30, 4, 5)
    assert torch.equal(target, x[:, -2])
    assert not torch.equal(target, x[:, -1])
    batch = torch.rand(6, 5, 4)
    detector.loss(detector.network, batch, 1)
    assert torch.equal(shown[1][1], batch[..., -2])
    # Without the mask it is the row itself.
    plain = fitted(TranAD)
    assert torch.equal(plain._network_input(batch)[1], batch[..., -1])


def test_a_mask_needs_a_row_before():
    with pytest.raises(StreamError, match="`window` must be a whole number, 2 or more"):
        TranAD(mask_target=True, window=1)


def test_share_outside_the_range_of_train_is_told():
    known = changed(plant(1), np.s_[:30, 2], 99)
    detector = fitted(TranAD)
    assert detector.residuals(plant()).notices == ()
    scale = detector._preprocessing.scaling
    scaled = (known.values - scale.offset) / scale.scale
    share = np.mean((scaled < 0) | (scaled > 1))
    assert share > 0.05
    assert f"{share:.2%} of the cells" in detector.residuals(known).notices[0]
    # A linear output can go there.
    assert fitted(TranAD, output="linear").residuals(known).notices == ()


# ---------------------------------------------------------------------- gaps and means


@pytest.mark.parametrize(
    ("kind", "export", "official"),
    [
        (GDN, [*range(3, 50), *range(53, 120)], [*range(3, 120)]),
        (FuSAGNet, [*range(3, 50), *range(53, 120)], [*range(3, 120)]),
        (TranAD, [*range(120)], [*range(120)]),
    ],
)
def test_official_windows_run_through_gaps(kind, export, official):
    gapped, whole = plant(1, breaks=(0, 50)), plant(1)
    detector = fitted(kind)
    ours, theirs = (
        detector.residuals(gapped, preset=p) for p in ("export", "official")
    )
    assert ours.index.tolist() == export
    assert theirs.index.tolist() == official
    unbroken = detector.residuals(whole, preset="official").values
    np.testing.assert_array_equal(theirs.values, unbroken)
    if kind is TranAD:
        assert np.flatnonzero(ours.is_warm_up).tolist() == [0, 1, 2, 50, 51, 52]
        assert np.flatnonzero(theirs.is_warm_up).tolist() == [0, 1, 2, 3]


def test_official_gdn_fills_with_the_mean_of_the_very_recording():
    known = changed(plant(1), np.s_[40:60, 2], np.nan)
    detector = fitted(GDN)
    by_hand = changed(known, np.s_[40:60, 2], np.nanmean(known.values[:, 2]))
    told = detector.residuals(known, preset="official")
    np.testing.assert_array_equal(told.values, detector.residuals(by_hand).values)
    assert "mean of the recording" in told.notices[0]
    held = changed(known, np.s_[40:60, 2], known.values[39, 2])
    told = detector.residuals(known)
    np.testing.assert_array_equal(told.values, detector.residuals(held).values)
    assert "last value before them" in told.notices[0]


@KINDS
def test_residuals_are_for_export_whatever_was_fitted(kind):
    detector = fitted(kind, "official", batch_size=16)
    known = plant(1, breaks=(0, 50))
    default = detector.residuals(known)
    ours, theirs = (detector.residuals(known, preset=p) for p in ("export", "official"))
    np.testing.assert_array_equal(default.values, ours.values)
    assert ours.values.shape != theirs.values.shape or (
        abs(ours.values - theirs.values).max() > 1e-6
    )


@KINDS
def test_fit_takes_its_own_preset(kind):
    ours, theirs = fitted(kind), fitted(kind, "official")
    for name, value in kind.official.items():
        assert getattr(theirs.settings, name) == value
        assert getattr(ours.settings, name) != value


# ------------------------------------------------------------------------- overrides


@pytest.mark.parametrize("preset", ["export", "official"])
@KINDS
def test_what_is_asked_for_goes_before_preset_and_testbed(kind, preset):
    for field in fields(kind.settings_type):
        plain = getattr(kind(preset, testbed="swat").settings, field.name)
        other = {
            "dtype": "float64" if plain == "float32" else "float32",
            "device": "cpu",
            "clip": (-1.0, 2.0),
            "reference_trim_s": 60.0,
            "test_until": "2017-10-10 15:48:24",
            "betas": (0.5, 0.6),
            "patience": 3,
            "sampling": "last",
            "constant_channels": "drop",
            "missing": "mean" if plain == "hold" else "hold",
            "test_scaling": "own",
            "self_loops": "all",
            "ff_activation": "relu",
            "pos_encoding": "standard",
            "output": "linear",
            "pot_level": 0.9,
            "pot_risk": 0.01,
            "alignment": "official" if plain == "aligned" else "aligned",
            "exported": "first" if plain == "second" else "reconstruction",
            "scaler": "spread",
            "residual": "absolute" if kind is GDN else "squared",
        }.get(field.name)
        if other is None:
            other = (
                not plain
                if isinstance(plain, bool)
                else plain + 2
                if isinstance(plain, int)
                else plain / 2 + 0.3
            )
        assert other != plain, field.name
        chosen = kind(preset, testbed="swat", **{field.name: other}).settings
        assert getattr(chosen, field.name) == other, field.name
        # And nothing else changes with it.
        rest = {f.name for f in fields(chosen)} - {field.name}
        usual = kind(preset, testbed="swat").settings
        assert all(getattr(chosen, n) == getattr(usual, n) for n in rest), field.name


@KINDS
def test_overrides_hold_in_both_presets_of_residuals(kind):
    detector = kind(**(TINY[kind] | {"cross_gaps": True, "every": 2})).fit(plant())
    for preset in ("export", "official"):
        assert detector._settings(preset).cross_gaps
        told = detector.residuals(plant(1, breaks=(0, 50)), preset=preset)
        assert told.every == 2
        assert (np.diff(told.index) == 2).all()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("learning_rat", "learning_rate"), ("epoch", "epochs"), ("topk", "top_k")],
)
def test_an_unknown_setting_names_the_nearest(wrong, right):
    with pytest.raises(StreamError, match=f"GDN has no setting '{wrong}'; .*'{right}'"):
        GDN(**{wrong: 1})


def test_a_setting_like_no_other_lists_what_a_sentence_holds():
    with pytest.raises(StreamError, match=r"no setting 'zzz'; use .*window.*\.") as e:
        make_detector("tranad", zzz=1)
    # A message has at most 400 characters; `sightline detectors tranad` lists all.
    named = [f.name for f in fields(TranAD.settings_type) if f.name in str(e.value)]
    assert len(named) > 20


@KINDS
def test_an_unknown_preset_is_refused(kind):
    with pytest.raises(StreamError, match="`preset` must be one of export, official"):
        kind("published")
    with pytest.raises(StreamError, match="`preset` must be one of export, official"):
        fitted(kind).residuals(plant(), preset="published")


# --------------------------------------------------- choices that others may have made


@pytest.mark.parametrize(
    ("kind", "choice", "form"),
    [(GDN, "absolute", np.abs), (TranAD, "squared", np.square)],
)
def test_residuals_in_the_form_of_the_published_code_are_made_of_ours(
    kind, choice, form
):
    ours = fitted(kind).residuals(plant(1))
    theirs = fitted(kind, residual=choice).residuals(plant(1))
    np.testing.assert_allclose(theirs.values, form(ours.values), rtol=1e-5, atol=1e-9)


def test_the_rule_of_tranad_is_of_errors_not_of_their_squares():
    detector = fitted(TranAD, residual="squared")
    assert export_stream(detector, plant(), plant(1)).alarms is None
    with pytest.raises(StreamError, match="set `exported` to 'second' and `residual`"):
        export_stream(detector, plant(), plant(1), rule="pot")


@pytest.mark.parametrize("kind", [GDN, TranAD])
def test_choices_on_cards_are_settings_that_exist_and_change_something(kind):
    card = kind.card
    for name, choice in card.choices.items():
        assert choice.why, name
        preset = card.paper_protocol.preset or "export"
        plain = kind(preset, testbed="waterworks").settings
        made = kind(preset, testbed="waterworks", **choice.settings).settings
        assert made != plain or choice.train_share < 1, name


# ----------------------------------------------------------------------------- cards


@KINDS
def test_every_card_says_what_is_published_and_what_is_not(kind):
    card = kind.card
    assert card.paper.endswith(("2021", "2022"))
    assert card.extra == "detectors"
    assert card.faithful
    assert card.deviates
    for sentence in (*card.faithful, *card.deviates):
        assert sentence[0].isupper()
        assert sentence.endswith(".")
    assert set(card.settings) == set(card.sources)
    assert all(source.strip() for source in card.sources.values())


@pytest.mark.parametrize("preset", ["export", "official"])
@KINDS
def test_settings_of_every_testbed_are_settings(kind, preset):
    for testbed, settings in kind.card.settings.items():
        made = kind(preset, testbed=testbed).settings
        for name, value in settings.items():
            assert getattr(made, name) == value, (testbed, name)


def test_published_settings():
    gdn = GDN("official", testbed="swat").settings
    # As the author confirms in issues 4 and 29 of the repository.
    assert (gdn.window, gdn.dim, gdn.top_k, gdn.batch_size) == (5, 64, 15, 16)
    assert (gdn.epochs, gdn.patience, gdn.validation_share) == (50, 15, 0.1)
    assert (gdn.learning_rate, gdn.betas) == (1e-3, (0.9, 0.999))
    assert (gdn.every, gdn.sampling, gdn.trim_s) == (10, "median", 21_600)
    assert gdn.scale_before_trim
    wadi = GDN("official", testbed="wadi").settings
    assert (wadi.dim, wadi.top_k) == (128, 30)
    fusagnet = FuSAGNet("official", testbed="hai").settings
    assert (fusagnet.window, fusagnet.dim, fusagnet.batch_size) == (16, 32, 64)
    assert (fusagnet.epochs, fusagnet.patience) == (30, 6)
    assert (fusagnet.learning_rate, fusagnet.noise_std) == (5e-4, 1)
    tranad = TranAD("official", testbed="wadi").settings
    assert (tranad.window, tranad.hidden, tranad.batch_size) == (10, 16, 128)
    assert (tranad.epochs, tranad.learning_rate) == (5, 1e-4)
    assert (tranad.lr_factor, tranad.lr_every) == (0.9, 5)
    assert (tranad.weight_decay, tranad.decoupled_decay) == (1e-5, True)
    assert (tranad.shuffle, tranad.validation_share) == (False, 0)
    assert (tranad.every, tranad.sampling, tranad.pot_level) == (10, "stride", 0.999)


# ---------------------------------------------------------------------------- stages


@pytest.mark.parametrize("exported", ["forecast", "reconstruction"])
@pytest.mark.parametrize("stages", ["AABBB", "ABABB", "BBABA"])
def test_residual_columns_are_in_the_order_of_the_recording(stages, exported):
    detector = FuSAGNet(**TINY[FuSAGNet], exported=exported).fit(plant(stages=stages))
    known = plant(1, n=30, stages=stages)
    told = detector.residuals(known)
    assert told.channels == known.channels
    # By hand: stages in the order they first appear, each with its own channels.
    order = [k for s in dict.fromkeys(stages) for k in range(5) if stages[k] == s]
    scale = detector._preprocessing.scaling
    x = torch.from_numpy(
        ((known.values - scale.offset) / scale.scale).astype(np.float32)
    )
    rows, index = [], []
    for t in range(3, 30) if exported == "forecast" else range(2, 30):
        last = t - 1 if exported == "forecast" else t
        window = x[last - 2 : last + 1][:, order].T[None]
        with torch.no_grad():
            forecast, rebuilt = detector.network.eval()(window)
        made = forecast[0] if exported == "forecast" else rebuilt[0, :, -1]
        expected = np.empty(5, np.float32)
        expected[order] = made.numpy()
        rows.append(x[t].numpy() - expected)
        index.append(t)
    np.testing.assert_allclose(told.values, np.array(rows), atol=1e-5)
    assert told.index.tolist() == index


def test_interleaved_stages_are_as_sorted_ones():
    # The same channels, stage by stage and mixed; both in the same order of stages.
    known, mixed = plant(stages="AABBB"), [0, 2, 1, 3, 4]
    tags = tuple(known.tags[k] for k in mixed)
    assert [tag.stage for tag in tags] == ["A", "B", "A", "B", "B"]
    interleaved = replace(known, values=known.values[:, mixed], tags=tags)
    ours, theirs = (
        FuSAGNet(**TINY[FuSAGNet]).fit(of).residuals(of) for of in (known, interleaved)
    )
    assert theirs.channels == ("T0", "T2", "T1", "T3", "T4")
    np.testing.assert_array_equal(theirs.values, ours.values[:, mixed])


def test_order_of_stages():
    order, sizes = stage_order(["B", None, "A", "B", None, "B"])
    assert order.tolist() == [0, 3, 5, 1, 4, 2]
    assert sizes == [3, 2, 1]


def test_stages_make_the_network():
    sizes = [len(t.weight) for t in fitted(FuSAGNet).network.embeddings]
    assert sizes == [2, 3]
    alone = FuSAGNet(**TINY[FuSAGNet]).fit(plant(stages=[None] * 3))
    assert [len(t.weight) for t in alone.network.embeddings] == [3]


# ----------------------------------------------------------- every option, all the way


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (GDN, {"head_layers": 2, "head_width": 3}),
        (GDN, {"top_k": 99, "dtype": "float64"}),
        (GDN, {"constant_channels": "drop", "clip": (-1, 2)}),
        (FuSAGNet, {"self_loops": "all"}),
        (FuSAGNet, {"self_loops": "official"}),
        (FuSAGNet, {"recurrent": True}),
        (FuSAGNet, {"exported": "reconstruction"}),
        (FuSAGNet, {"fixed_rho": False, "noise_std": 0.1}),
        (FuSAGNet, {"alpha": 0.9, "beta": 0.0, "head_layers": 3, "head_width": 3}),
        (TranAD, {"layer_norm": True}),
        (TranAD, {"ff_activation": "relu"}),
        (TranAD, {"ff_activation": "leaky_relu"}),
        (TranAD, {"pos_encoding": "standard"}),
        (TranAD, {"output": "linear"}),
        (TranAD, {"mask_target": True}),
        (TranAD, {"alignment": "official"}),
        (TranAD, {"exported": "first"}),
        (TranAD, {"hidden": 3, "window": 2, "test_scaling": "own"}),
        (TranAD, {"betas": (0.8, 0.9), "patience": 1, "every": 2}),
    ],
)
@pytest.mark.parametrize("preset", ["export", "official"])
def test_every_option_can_be_fitted_saved_and_loaded(kind, options, preset, tmp_path):
    known = changed(plant(stages="AABBBC"), np.s_[:, 5], 7.0)
    detector = kind(preset, **(TINY[kind] | options)).fit(known)
    path = tmp_path / "saved.npz"
    detector.save(path)
    again = load_detector(path)
    assert type(again) is kind
    assert again.settings == detector.settings
    assert again.about()["training"] == detector.about()["training"]
    test = changed(plant(1, stages="AABBBC"), np.s_[:, 5], 7.0)
    for which in ("export", "official"):
        ours, theirs = (d.residuals(test, preset=which) for d in (detector, again))
        assert np.isfinite(ours.values).all()
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.index, theirs.index)
        np.testing.assert_array_equal(ours.scale, theirs.scale)
        assert ours.channels == theirs.channels
    # The option is not only accepted: it changes something.
    plain = kind(preset, **TINY[kind]).fit(known)
    first, second = (d.residuals(test) for d in (detector, plain))
    assert not np.array_equal(first.values, second.values)


@KINDS
def test_a_loaded_detector_can_be_fitted_again(kind, tmp_path):
    detector = fitted(kind)
    detector.save(tmp_path / "saved.npz")
    again = kind.load(tmp_path / "saved.npz").fit(plant())
    for name, array in weights_of(again.network).items():
        np.testing.assert_array_equal(array, weights_of(detector.network)[name])


@pytest.mark.parametrize(
    "option", [{"window": np.int64(3)}, {"dropout": np.float32(0)}]
)
def test_numbers_of_numpys_kind_can_be_saved(option, tmp_path):
    detector = GDN(**(TINY[GDN] | option)).fit(plant())
    detector.save(tmp_path / "saved.npz")
    assert GDN.load(tmp_path / "saved.npz").settings == detector.settings


def test_a_word_is_neither_yes_nor_no():
    with pytest.raises(StreamError, match="`shuffle`"):
        GDN(shuffle="no")


def test_own_scaling_tells_its_own_scale():
    known = plant(1)
    known = replace(known, values=100 * known.values)
    detector = fitted(TranAD, test_scaling="own")
    expected = np.ptp(known.values, axis=0) + 1e-4
    np.testing.assert_allclose(detector.residuals(known).scale, expected)


# ---------------------------------------------------------------------------- the file


@KINDS
def test_a_saved_file_holds_no_code(kind, tmp_path):
    path = tmp_path / "saved.npz"
    fitted(kind).save(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert all(array.dtype.kind in "fiubU" for array in arrays.values())
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    about = json.loads(str(arrays["about_json"]))
    assert about["format"] == FORMAT
    assert about["channels"] == [f"T{k}" for k in range(5)]


def test_an_unknown_format_is_refused(tmp_path):
    path = tmp_path / "saved.npz"
    fitted(GDN).save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays.pop("about_json")))
    page = json.dumps(about | {"format": FORMAT + 1})
    np.savez(path, about_json=np.array(page), **arrays)
    with pytest.raises(
        FileError, match=f"format {FORMAT + 1} .*or fit .* again"
    ) as error:
        GDN.load(path)
    assert "\n" not in str(error.value)


def test_a_file_of_another_detector_is_refused(tmp_path):
    path = tmp_path / "saved.npz"
    fitted(GDN).save(path)
    with pytest.raises(FileError, match="holds 'gdn', not the detector 'tranad'"):
        TranAD.load(path)


@KINDS
def test_nothing_can_be_saved_or_told_before_it_is_learned(kind, tmp_path):
    with pytest.raises(StreamError, match="call `fit` first"):
        kind().save(tmp_path / "saved.npz")
    with pytest.raises(StreamError, match="call `fit` first"):
        kind().residuals(plant())


@KINDS
def test_without_torch_it_is_said_what_to_install(kind, monkeypatch):
    # What is None there cannot be imported.
    monkeypatch.setitem(sys.modules, "torch", None)
    hint = rf"{kind.card.title} needs torch.*pip install 'sightline-cps\[detectors\]'"
    with pytest.raises(MissingExtraError, match=hint):
        kind()
    with pytest.raises(MissingExtraError, match=hint):
        require("torch", extra="detectors", caller=kind.card.title)


def test_a_version_that_gives_other_residuals_is_refused(tmp_path):
    path = tmp_path / "detector.npz"
    fitted(GDN).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about_json"])) | {"version": 99}
    np.savez(path, **arrays | {"about_json": np.array(json.dumps(about))})
    with pytest.raises(FileError, match="version 99 of GDN"):
        load_detector(path)


@KINDS
def test_a_network_with_an_empty_layer_is_refused(kind, tmp_path):
    path = tmp_path / "detector.npz"
    fitted(kind).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    layers = [name for name in arrays if name.startswith("network/")]
    for name in layers:
        np.savez(path, **arrays | {name: np.empty((0, *arrays[name].shape[1:]))})
        with pytest.raises(FileError, match=r"not a whole detector .* fit it again\.$"):
            load_detector(path)


def test_a_testbed_that_is_nearly_one_is_asked_about():
    with pytest.raises(StreamError, match="did you mean 'swat'"):
        GDN(testbed="swatt")
    assert GDN(testbed="SWaT").settings.every == 10
    assert GDN(testbed="hai-22.04").settings.every == 10
    # A plant of one's own has a name of its own.
    assert GDN(testbed="millbrook").settings.every == 1
