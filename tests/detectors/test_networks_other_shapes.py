"""The networks in shapes no golden file has, against formulas worked slowly.

Everything here is written from the published formulas, one edge, head and row at a
time, so that it shares no idea with the networks it is held against.
"""

from math import cos, exp, log, log1p, sin, sqrt

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import seeds

from sightline.detectors.fusagnet.network import (
    FuSAGNetNetwork,
    FuSAGNetOutput,
    fusagnet_loss,
)
from sightline.detectors.gdn.network import FixedForecast, GDNNetwork
from sightline.detectors.networks import load_weights, weights_of
from sightline.detectors.tranad.network import TranADNetwork, tranad_loss

NEAR = 1e-10
RULES = ("none", "all", "official")


def random_weights(network, rng, size=1.5):
    """Every array random, also those that start at 0 or 1."""
    drawn = {}
    for name, array in weights_of(network).items():
        if name.endswith("num_batches_tracked"):
            drawn[name] = np.array(rng.integers(1, 9))
        elif name.endswith("running_var"):
            drawn[name] = rng.uniform(0.3, 2.0, array.shape)
        elif array.ndim == 2:
            drawn[name] = rng.normal(size=array.shape) * size / sqrt(array.shape[1])
        else:
            drawn[name] = rng.normal(size=array.shape)
    return drawn


def close(ours, theirs):
    ours = ours.detach().numpy()
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=NEAR, atol=NEAR)


def sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def softmax(logits):
    raised = [exp(logit - max(logits)) for logit in logits]
    return [one / sum(raised) for one in raised]


def normalised(rows, weights, name, training=False):
    """Batch normalisation of (rows, columns)."""
    mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
    if training:
        mean, variance = rows.mean(axis=0), rows.var(axis=0)
    scaled = (rows - mean) / np.sqrt(variance + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


# ------------------------------------------------------------- graph, GDN, FuSAGNet


def similarity(embedding):
    n = len(embedding)
    alike = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            lengths = sqrt((embedding[i] ** 2).sum()) * sqrt((embedding[j] ** 2).sum())
            alike[i, j] = (embedding[i] * embedding[j]).sum() / lengths
    return alike


def is_clear(embedding):
    """Whether no two channels are so alike to a third that rounding picks."""
    gaps = np.diff(np.sort(similarity(embedding), axis=1), axis=1)
    return (gaps > 1e-9).all()


def senders_to(i, alike, k, *, loops):
    order = sorted(range(len(alike)), key=lambda j: -alike[i, j])[:k]
    return [j for j in order if j != i] + ([i] if loops else [])


def attention_of(sample, i, senders, embedding, weights):
    """Share of each sender in what node i gathers."""
    gnn = "gnn_layers.0.gnn."
    project = weights[gnn + "lin.weight"]
    receives = np.concatenate([weights[gnn + "att_i"], weights[gnn + "att_em_i"]], 2)
    sends = np.concatenate([weights[gnn + "att_j"], weights[gnn + "att_em_j"]], 2)
    own = np.concatenate([project @ sample[i], embedding[i]])
    logits = []
    for j in senders:
        other = np.concatenate([project @ sample[j], embedding[j]])
        logit = float(receives.ravel() @ own + sends.ravel() @ other)
        logits.append(logit if logit > 0 else 0.2 * logit)
    return softmax(logits) if logits else []


def forecast_by_hand(x, embedding, weights, k, loops_of, training=False):
    """Forecast and dense attention; `loops_of(sample, node)` tells who has a loop."""
    batch, n, _ = x.shape
    gnn, alike = "gnn_layers.0.gnn.", similarity(embedding)
    attention, gathered = np.zeros((batch, n, n)), []
    for b in range(batch):
        for i in range(n):
            senders = senders_to(i, alike, k, loops=loops_of(b, i))
            total = weights[gnn + "bias"].copy()
            shares = attention_of(x[b], i, senders, embedding, weights)
            for j, share in zip(senders, shares, strict=True):
                attention[b, i, j] = share
                total += share * (weights[gnn + "lin.weight"] @ x[b, j])
            gathered.append(total)
    gathered = np.array(gathered)
    rows = np.maximum(normalised(gathered, weights, "gnn_layers.0.bn", training), 0)
    rows = rows * np.tile(embedding, (batch, 1))
    rows = np.maximum(normalised(rows, weights, "bn_outlayer_in", training), 0)
    place = 0
    while f"out_layer.mlp.{place + 1}.weight" in weights:
        rows = linear(rows, weights, f"out_layer.mlp.{place}")
        rows = normalised(rows, weights, f"out_layer.mlp.{place + 1}", training)
        rows = np.maximum(rows, 0)
        place += 3
    rows = linear(rows, weights, f"out_layer.mlp.{place}")
    return rows.reshape(batch, n), attention, gathered.reshape(batch, n, -1)


def linear(rows, weights, name):
    return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def gru(rows, weights, name):
    """Three layers, both ways, over rows (time, features), from a state of 0."""
    for layer in range(3):
        ways = [
            one_way(rows, weights, f"{name}.{{}}_l{layer}"),
            one_way(rows[::-1], weights, f"{name}.{{}}_l{layer}_reverse")[::-1],
        ]
        rows = np.concatenate(ways, axis=1)
    return rows


def one_way(rows, weights, name):
    of_input, of_state = (
        weights[name.format(kind)] for kind in ("weight_ih", "weight_hh")
    )
    input_bias, state_bias = (
        weights[name.format(kind)] for kind in ("bias_ih", "bias_hh")
    )
    state, states = np.zeros(of_state.shape[1]), []
    for row in rows:
        from_input = np.split(of_input @ row + input_bias, 3)
        from_state = np.split(of_state @ state + state_bias, 3)
        reset = sigmoid(from_input[0] + from_state[0])
        keep = sigmoid(from_input[1] + from_state[1])
        new = np.tanh(from_input[2] + reset * from_state[2])
        state = (1 - keep) * new + keep * state
        states.append(state)
    return np.array(states)


def embedded(weights, recurrent=False):
    parts, process = [], 0
    while f"embeddings.{process}.weight" in weights:
        table = weights[f"embeddings.{process}.weight"]
        name = f"rnn_embedding_modules.{process}"
        if recurrent:
            parts.append(gru(table, weights, name))
        else:
            # Each channel is a sequence of its own.
            parts += [gru(row[np.newaxis], weights, name) for row in table]
        process += 1
    return np.concatenate(parts)


def squeezed(flat, weights, name, training=False):
    for layer in range(2):
        flat = linear(flat, weights, f"{name}.{name}.{layer}")
        flat = sigmoid(normalised(flat, weights, f"{name}.bns.{layer}", training))
    return flat


def fusagnet_by_hand(x, weights, k, rule, *, recurrent=False, training=False):
    batch, n, window = x.shape
    codes = squeezed(x.reshape(batch, -1), weights, "encoder", training)
    rebuilt = squeezed(codes, weights, "decoder", training).reshape(x.shape)
    loops_of = {
        "none": lambda b, i: False,
        "all": lambda b, i: True,
        "official": lambda b, i: b * n + i < window,
    }[rule]
    made = forecast_by_hand(
        codes.reshape(x.shape),
        embedded(weights, recurrent),
        weights,
        k,
        loops_of,
        training,
    )
    return *made, rebuilt


@st.composite
def heads(draw):
    return {
        "head_layers": draw(st.integers(1, 3)),
        "head_width": draw(st.integers(1, 7)),
    }


@st.composite
def gdn_cases(draw):
    n = draw(st.integers(1, 13))
    sizes = {
        "channels": n,
        "window": draw(st.integers(1, 12)),
        "dim": 2 * draw(st.integers(1, 6)),
        "top_k": draw(st.integers(1, n)),
    }
    return sizes | draw(heads()), draw(st.integers(1, 5)), draw(seeds)


@st.composite
def fusagnet_cases(draw):
    processes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    sizes = {
        "processes": processes,
        "window": draw(st.integers(1, 7)),
        "dim": 2 * draw(st.integers(1, 6)),
        "top_k": draw(st.integers(1, sum(processes))),
    }
    return sizes | draw(heads()), draw(st.integers(1, 5)), draw(seeds)


def drawn_gdn(sizes, batch, seed):
    rng = np.random.default_rng(seed)
    weights = random_weights(GDNNetwork(**sizes), rng)
    x = rng.normal(size=(batch, sizes["channels"], sizes["window"]))
    return weights, x


def drawn_fusagnet(sizes, batch, seed):
    rng = np.random.default_rng(seed)
    weights = random_weights(FuSAGNetNetwork(**sizes), rng)
    x = rng.normal(size=(batch, sum(sizes["processes"]), sizes["window"]))
    return weights, x


ONE_CHANNEL = {"channels": 1, "window": 1, "dim": 2, "top_k": 1}
GDN_13 = {"channels": 13, "window": 12, "dim": 12, "top_k": 13, "head_layers": 3}


@given(gdn_cases())
@example((ONE_CHANNEL, 1, 0))
@example((GDN_13, 5, 0))
@settings(max_examples=60, deadline=None)
def test_gdn_is_its_formula(case):
    sizes, batch, seed = case
    weights, x = drawn_gdn(sizes, batch, seed)
    embedding, k = weights["embedding.weight"], sizes["top_k"]
    assume(is_clear(embedding))
    network = GDNNetwork.of_weights(weights, top_k=k).eval()
    output = network.detailed(torch.as_tensor(x))
    theirs, attention, gathered = forecast_by_hand(
        x, embedding, weights, k, lambda b, i: True
    )
    close(output.forecast, theirs)
    close(output.attention, attention)
    close(output.gathered, gathered)


@given(gdn_cases())
@settings(max_examples=30, deadline=None)
def test_gdn_in_training_normalises_by_the_batch(case):
    sizes, batch, seed = case
    weights, x = drawn_gdn(sizes, batch, seed)
    embedding = weights["embedding.weight"]
    # Two rows are mapped to -1 and 1 whatever they are, but for the 1e-5.
    assume(is_clear(embedding) and x.shape[0] * x.shape[1] > 3)
    network = load_weights(GDNNetwork(**sizes, dropout=0.0), weights).train()
    theirs, *_ = forecast_by_hand(
        x, embedding, weights, sizes["top_k"], lambda b, i: True, training=True
    )
    np.testing.assert_allclose(
        network(torch.as_tensor(x)).detach(), theirs, rtol=1e-8, atol=1e-8
    )


@given(fusagnet_cases(), st.sampled_from(RULES), st.booleans())
@example(({"processes": [1], "window": 1, "dim": 2, "top_k": 1}, 1, 0), "none", False)
@example(
    ({"processes": [1, 3, 1], "window": 7, "dim": 4, "top_k": 2}, 3, 0),
    "official",
    True,
)
@settings(max_examples=80, deadline=None)
def test_fusagnet_is_its_formula(case, rule, recurrent):
    sizes, batch, seed = case
    weights, x = drawn_fusagnet(sizes, batch, seed)
    embedding, k = embedded(weights, recurrent), sizes["top_k"]
    assume(is_clear(embedding))
    network = FuSAGNetNetwork.of_weights(
        weights, top_k=k, self_loops=rule, recurrent=recurrent
    ).eval()
    output = network.detailed(torch.as_tensor(x))
    theirs, attention, gathered, rebuilt = fusagnet_by_hand(
        x, weights, k, rule, recurrent=recurrent
    )
    close(output.embedding, embedding)
    close(output.attention, attention)
    close(output.gathered, gathered)
    close(output.forecast, theirs)
    close(output.reconstruction, rebuilt)


@given(fusagnet_cases(), st.sampled_from(RULES))
@settings(max_examples=30, deadline=None)
def test_fusagnet_in_training_normalises_by_the_batch(case, rule):
    sizes, batch, seed = case
    weights, x = drawn_fusagnet(sizes, batch, seed)
    assume(is_clear(embedded(weights)) and batch > 2)
    options = {"dropout": 0.0, "embedding_dropout": 0.0, "self_loops": rule}
    network = load_weights(FuSAGNetNetwork(**sizes, **options), weights).train()
    forecast, rebuilt = network(torch.as_tensor(x))
    theirs, _, _, back = fusagnet_by_hand(
        x, weights, sizes["top_k"], rule, training=True
    )
    np.testing.assert_allclose(forecast.detach(), theirs, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(rebuilt.detach(), back, rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------------------- laws

GDN_SIZES = {"channels": 6, "window": 4, "dim": 8, "top_k": 3}
FUSAGNET_SIZES = {"processes": [2, 1, 3], "window": 4, "dim": 8, "top_k": 3}


@pytest.mark.parametrize("k", [7, 50])
def test_more_neighbours_than_channels_are_all_of_them(k):
    weights, x = drawn_gdn(GDN_SIZES, 3, 1)
    x = torch.as_tensor(x)
    all_of_them = GDNNetwork.of_weights(weights, top_k=6).eval()(x)
    assert torch.equal(GDNNetwork.of_weights(weights, top_k=k).eval()(x), all_of_them)
    weights, _ = drawn_fusagnet(FUSAGNET_SIZES, 3, 1)
    for rule in RULES:
        more, as_many = (
            FuSAGNetNetwork.of_weights(weights, top_k=k, self_loops=rule).eval()
            for k in (k, 6)
        )
        assert torch.equal(more(x)[0], as_many(x)[0])


@pytest.mark.parametrize("sizes", [{"window": 1}, {"window": 9}])
def test_node_that_nobody_sends_to_gathers_the_bias(sizes):
    sizes = FUSAGNET_SIZES | sizes | {"top_k": 1}
    weights, x = drawn_fusagnet(sizes, 3, 2)
    network = FuSAGNetNetwork.of_weights(weights, top_k=1, self_loops="none").eval()
    output = network.detailed(torch.as_tensor(x))
    bias = weights["gnn_layers.0.gnn.bias"]
    assert (output.attention == 0).all()
    close(output.gathered, np.broadcast_to(bias, (3, 6, 8)))
    forecast, *_ = fusagnet_by_hand(x, weights, 1, "none")
    close(output.forecast, forecast)
    # Nor does it break training.
    network.train()
    output = network.detailed(torch.as_tensor(x))
    output.forecast.sum().backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_gdn_forecasts_a_window_alone_as_in_a_batch():
    weights, x = drawn_gdn(GDN_SIZES, 5, 3)
    network = GDNNetwork.of_weights(weights, top_k=3).eval()
    together = network(torch.as_tensor(x))
    for window, forecast in zip(torch.as_tensor(x), together, strict=True):
        close(network(window[np.newaxis])[0], forecast.detach().numpy())


@pytest.mark.parametrize("rule", ["none", "all"])
def test_fusagnet_forecasts_a_window_alone_as_in_a_batch(rule):
    weights, x = drawn_fusagnet(FUSAGNET_SIZES, 5, 3)
    network = FuSAGNetNetwork.of_weights(weights, top_k=3, self_loops=rule).eval()
    together = network(torch.as_tensor(x))
    for b, window in enumerate(torch.as_tensor(x)):
        for alone, batched in zip(network(window[np.newaxis]), together, strict=True):
            close(alone[0], batched[b].detach().numpy())


def test_official_self_loops_reach_the_first_nodes_of_the_first_sample_only():
    weights, x = drawn_fusagnet(FUSAGNET_SIZES, 3, 4)
    x = torch.as_tensor(x)
    official, none = (
        FuSAGNetNetwork.of_weights(weights, top_k=3, self_loops=rule).eval()
        for rule in ("official", "none")
    )
    with_loops, without = official.detailed(x), none.detailed(x)
    loops = with_loops.attention.diagonal(dim1=1, dim2=2).flatten() > 0
    assert loops.tolist() == [True] * 4 + [False] * 14
    same = (with_loops.gathered - without.gathered).abs().amax(-1).flatten() < NEAR
    assert same.tolist() == [False] * 4 + [True] * 14


@given(seeds, st.permutations(range(6)))
@settings(max_examples=20, deadline=None)
def test_gdn_does_not_mind_the_order_of_channels(seed, order):
    weights, x = drawn_gdn(GDN_SIZES, 3, seed)
    assume(is_clear(weights["embedding.weight"]))
    forecast = GDNNetwork.of_weights(weights, top_k=3).eval()(torch.as_tensor(x))
    moved = weights | {"embedding.weight": weights["embedding.weight"][order]}
    network = GDNNetwork.of_weights(moved, top_k=3).eval()
    close(network(torch.as_tensor(x[:, order])), forecast.detach().numpy()[:, order])


def test_channels_listen_to_those_they_are_told_to_alone():
    weights, x = drawn_gdn(GDN_SIZES, 2, 5)
    network = GDNNetwork.of_weights(weights, top_k=3).eval()
    before = network.detailed(torch.as_tensor(x))
    for changed in range(6):
        other = x.copy()
        other[:, changed] += 1.0
        after = network.detailed(torch.as_tensor(other))
        moved = (after.gathered - before.gathered).abs().amax((0, 2)) > NEAR
        listens = (before.nearest == changed).any(-1)
        assert torch.equal(moved, listens)


def test_recurrence_over_channels_is_another_embedding():
    weights, _ = drawn_fusagnet(FUSAGNET_SIZES, 1, 6)
    plain, recurrent = (
        FuSAGNetNetwork.of_weights(weights, top_k=3, recurrent=recurrent).eval()
        for recurrent in (False, True)
    )
    by_hand = embedded(weights, recurrent=True)
    close(recurrent.embed(), by_hand)
    differs = (plain.embed() - recurrent.embed()).abs().amax(-1) > 1e-3
    # The third channel is a process of its own: nothing comes before or after it.
    assert differs.tolist() == [True, True, False, True, True, True]


# ------------------------------------------------------------------ FuSAGNet's loss


def output_of(codes, forecast, reconstruction):
    empty = torch.zeros(0)
    return FuSAGNetOutput(
        forecast=forecast,
        reconstruction=reconstruction,
        codes=codes,
        embedding=empty,
        nearest=empty,
        attention=empty,
        gathered=empty,
        features=empty,
        hidden=(empty, empty),
    )


def sparsity_by_hand(rho, sums):
    """Unit by unit; 1 - q as the sum of all the others, so that no digit is lost."""
    wanted, found = softmax(rho), softmax(sums)
    total = 0.0
    for i, (p, q) in enumerate(zip(wanted, found, strict=True)):
        others = sum(found[:i]) + sum(found[i + 1 :])
        total += p * log(p / q) + (1 - p) * (log1p(-p) - log(others))
    return total


@given(
    batch=st.integers(1, 5),
    channels=st.integers(1, 6),
    window=st.integers(2, 5),
    alpha=st.floats(0, 1),
    beta=st.floats(0, 3),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_fusagnet_loss_is_its_formula(batch, channels, window, alpha, beta, seed):
    rng = np.random.default_rng(seed)
    shape = (batch, channels, window)
    codes, x, rebuilt = (
        rng.uniform(size=shape),
        rng.normal(size=shape),
        rng.uniform(size=shape),
    )
    target, forecast = rng.normal(size=shape[:2]), rng.normal(size=shape[:2])
    rho = rng.uniform(1e-5, 1e-2, size=(1, channels * window))
    loss = fusagnet_loss(
        output_of(*(torch.as_tensor(a) for a in (codes, forecast, rebuilt))),
        torch.as_tensor(x),
        torch.as_tensor(target),
        torch.as_tensor(rho),
        alpha=alpha,
        beta=beta,
    )
    root = sqrt(((forecast - target) ** 2).mean())
    square = ((rebuilt - x) ** 2).mean()
    sparsity = sparsity_by_hand(
        rho.ravel().tolist(), codes.reshape(batch, -1).sum(0).tolist()
    )
    assert loss.forecast.item() == pytest.approx(root, abs=NEAR)
    assert loss.reconstruction.item() == pytest.approx(square, abs=NEAR)
    assert loss.sparsity.item() == pytest.approx(sparsity, abs=NEAR)
    total = alpha * root + (1 - alpha) * (square + beta * sparsity)
    assert loss.total.item() == pytest.approx(total, abs=NEAR)


@pytest.mark.parametrize("batch", [22, 90, 200])
@pytest.mark.parametrize("dominating", [0, 7, 14])
def test_loss_stays_finite_where_one_unit_dominates(batch, dominating):
    rng = np.random.default_rng(batch)
    codes = np.full((batch, 5, 3), 1e-4)
    codes.reshape(batch, -1)[:, dominating] = 1.0
    codes = torch.as_tensor(codes, dtype=torch.float32).requires_grad_()
    rho = torch.as_tensor(rng.uniform(1e-5, 1e-2, size=(1, 15)), dtype=torch.float32)
    zeros = torch.zeros(batch, 5), torch.zeros(batch, 5, 3)
    loss = fusagnet_loss(
        output_of(codes, zeros[0], zeros[1]), zeros[1], zeros[0] + 1, rho
    )
    # As published, with shares in single precision, it is infinite.
    wanted, found = rho.view(-1).softmax(-1), codes.flatten(1).sum(0).softmax(-1)
    naive = (wanted * (wanted / found).log()).sum() + (
        (1 - wanted) * ((1 - wanted) / (1 - found)).log()
    ).sum()
    assert naive.item() == float("inf")
    sums = codes.detach().double().flatten(1).sum(0).tolist()
    by_hand = sparsity_by_hand(rho.double().view(-1).tolist(), sums)
    assert loss.sparsity.item() == pytest.approx(by_hand, rel=1e-5)
    loss.total.backward()
    assert torch.isfinite(codes.grad).all()
    # The loss falls when the one unit is held back.
    assert codes.grad.flatten(1)[:, dominating].min() > 0


# --------------------------------------------------------------------------- TranAD


def attended(asking, memory, weights, name):
    """Rows (time, width); heads of two columns, one after another."""
    width = asking.shape[1]
    project = np.split(weights[f"{name}.in_proj_weight"], 3)
    bias = np.split(weights[f"{name}.in_proj_bias"], 3)
    query = asking @ project[0].T + bias[0]
    key, value = memory @ project[1].T + bias[1], memory @ project[2].T + bias[2]
    gathered = np.zeros((len(asking), width))
    for start in range(0, width, 2):
        head = slice(start, start + 2)
        for a in range(len(asking)):
            scores = [float(query[a, head] @ row[head]) / sqrt(2) for row in key]
            for share, row in zip(softmax(scores), value, strict=True):
                gathered[a, head] += share * row[head]
    return linear(gathered, weights, f"{name}.out_proj")


ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}


def layer_by_hand(rows, memory, weights, name, activation="identity", norm=False):
    def settled(rows, place):
        if not norm:
            return rows
        scale, shift = (
            weights[f"{name}.norms.{place}.{kind}"] for kind in ("weight", "bias")
        )
        spread = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
        return (rows - rows.mean(axis=1, keepdims=True)) / spread * scale + shift

    rows = settled(rows + attended(rows, rows, weights, f"{name}.self_attn"), 0)
    last = 1
    if memory is not None:
        gathered = attended(rows, memory, weights, f"{name}.multihead_attn")
        rows, last = settled(rows + gathered, 1), 2
    inner = ACTIVATIONS[activation](linear(rows, weights, f"{name}.linear1"))
    return settled(rows + linear(inner, weights, f"{name}.linear2"), last)


def tranad_by_hand(window, target, weights, *, output="sigmoid", **layer):
    """Both reconstructions for one window (rows, channels)."""
    channels = window.shape[1]

    def phase(number, focus):
        rows = np.concatenate([window, focus], axis=1) * sqrt(channels)
        rows = rows + weights["pos_encoder.pe"][:, 0]
        memory = layer_by_hand(
            rows, None, weights, "transformer_encoder.layers.0", **layer
        )
        asked = np.concatenate([target, target])[np.newaxis]
        decoded = layer_by_hand(
            asked, memory, weights, f"transformer_decoder{number}.layers.0", **layer
        )
        made = linear(decoded, weights, "fcn.0")[0]
        return sigmoid(made) if output == "sigmoid" else made

    first = phase(1, np.zeros_like(window))
    return first, phase(2, (first - window) ** 2)


@given(
    channels=st.integers(1, 6),
    window=st.integers(1, 12),
    hidden=st.integers(1, 20),
    batch=st.integers(1, 5),
    has_target=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "layer_norm": st.booleans(),
            "ff_activation": st.sampled_from(list(ACTIVATIONS)),
            "output": st.sampled_from(["sigmoid", "linear"]),
        }
    ),
    seed=seeds,
)
@settings(max_examples=60, deadline=None)
def test_tranad_is_its_formula(
    channels, window, hidden, batch, has_target, options, seed
):
    rng = np.random.default_rng(seed)
    sizes = {"window": window, "hidden": hidden}
    weights = random_weights(TranADNetwork(channels, **sizes, **options), rng, 0.5)
    network = TranADNetwork.of_weights(weights, **options).eval()
    x = rng.normal(size=(batch, window, channels))
    target = rng.normal(size=(batch, channels)) if has_target else x[:, -1]
    given_target = torch.as_tensor(target) if has_target else None
    ours = network(torch.as_tensor(x), given_target)
    for b in range(batch):
        theirs = tranad_by_hand(
            x[b],
            target[b],
            weights,
            output=options["output"],
            activation=options["ff_activation"],
            norm=options["layer_norm"],
        )
        for our, their in zip(ours, theirs, strict=True):
            close(our[b], their)


@pytest.mark.parametrize("window", [1, 2, 10, 40])
@pytest.mark.parametrize("channels", [1, 3, 51])
def test_positions_are_told_by_sine_and_cosine(window, channels):
    width = 2 * channels
    official = TranADNetwork(channels, window=window).pos_encoder.pe
    standard = TranADNetwork(channels, window=window, pos_encoding="standard")
    assert official.shape == (window, 1, width)
    both, in_turn = np.empty((window, width)), np.empty((window, width))
    for place in range(window):
        for column in range(width):
            angle = place / 10_000 ** (column / width)
            both[place, column] = sin(angle) + cos(angle)
            angle = place / 10_000 ** ((column - column % 2) / width)
            in_turn[place, column] = cos(angle) if column % 2 else sin(angle)
    # Made in single precision, whose angles are the less exact the larger they are.
    np.testing.assert_allclose(official[:, 0], both, atol=1e-6 * max(window / 10, 1))
    np.testing.assert_allclose(
        standard.pos_encoder.pe[:, 0], in_turn, atol=1e-6 * max(window / 10, 1)
    )


OPTIONS = (
    {"layer_norm": True},
    {"ff_activation": "relu"},
    {"ff_activation": "leaky_relu"},
    {"pos_encoding": "standard"},
    {"output": "linear"},
)


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_each_option_makes_another_network_that_learns(option):
    def made(**known):
        torch.manual_seed(0)
        return TranADNetwork(3, window=6, **known)

    x = torch.rand(32, 6, 3)
    plain, other = made().eval(), made(**option).eval()
    for usual, unusual in zip(plain(x), other(x), strict=True):
        assert (usual - unusual).abs().max() > 1e-3
    network = made(**option, dropout=0.0).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.005, fused=True)
    losses = []
    for _ in range(40):
        loss = tranad_loss(*network(x), x[:, -1], 2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert all(torch.isfinite(p).all() for p in network.parameters())
    assert losses[-1] < 0.8 * losses[0]


def test_tranad_windows_do_not_see_each_other():
    rng = np.random.default_rng(8)
    weights = random_weights(TranADNetwork(4, window=5), rng)
    network = TranADNetwork.of_weights(weights).eval()
    x = torch.as_tensor(rng.normal(size=(5, 5, 4)))
    together = network(x)
    for b, window in enumerate(x):
        for alone, batched in zip(network(window[np.newaxis]), together, strict=True):
            close(alone[0], batched[b].detach().numpy())


@pytest.mark.parametrize("window", [1, 6])
def test_tranad_drops_at_every_published_place(window, monkeypatch):
    shares = []

    def counted(rows, share, training):
        shares.extend([share] * training)
        return rows

    monkeypatch.setattr("sightline.detectors.tranad.network.dropout", counted)
    network = TranADNetwork(3, window=window, dropout=0.2)
    x = torch.rand(2, window, 3)
    network.train()(x)
    # Once after the positions and four times in the encoder, for each phase; six
    # times in each decoder.
    assert shares == [0.2] * (2 * (1 + 4) + 2 * 6)
    shares.clear()
    network.eval()(x)
    assert not shares


@pytest.mark.parametrize(
    ("channels", "top_k", "layers"), [(1, 1, 1), (7, 3, 1), (7, 3, 3), (5, 9, 2)]
)
@pytest.mark.parametrize("is_tied", [False, True])
def test_a_fixed_forecast_is_that_of_the_network(channels, top_k, layers, is_tied):
    rng = np.random.default_rng(channels)
    network = GDNNetwork(
        channels, window=4, dim=6, top_k=top_k, head_layers=layers, head_width=5
    )
    weights = random_weights(network, rng)
    if is_tied:
        # Several channels in one direction: some do not have themselves as nearest.
        weights["embedding.weight"][: channels - 1] = weights["embedding.weight"][0]
    load_weights(network, weights).eval()
    x = torch.from_numpy(rng.normal(size=(9, channels, 4)))
    close(FixedForecast(network)(x), network(x).detach().numpy())
