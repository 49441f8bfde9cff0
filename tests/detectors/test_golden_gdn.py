"""GDN against the official implementation, array by array."""

import json

import numpy as np
import pytest
import torch
from golden_files import (
    Golden,
    attention_on,
    edges_with_weight,
    in_order,
    of_kind,
    statistics,
    tensor,
)
from torch.nn.functional import mse_loss

from sightline import Recording, Tag
from sightline.data.downsampling import downsampled
from sightline.detectors.gdn.network import GDNNetwork
from sightline.detectors.networks import load_weights, weights_of
from sightline.detectors.preprocessing import Preprocessing
from sightline.detectors.settings import PreprocessingSettings

# What the specification asks for: double precision, weights after Adam (it turns
# rounding into steps where the true gradient is 0), single precision.
DOUBLE, TRAINED, SINGLE = 1e-10, 1e-8, 2e-5
PRECISIONS = (np.float32, np.float64)


def official(golden, dtype=np.float64):
    weights = of_kind(golden.part("w/"), dtype)
    top_k = json.loads(str(golden["meta"]))["topk"]
    return GDNNetwork.of_weights(weights, top_k=top_k).eval()


def without_dropout(golden):
    meta = json.loads(str(golden["meta"]))
    network = GDNNetwork(
        meta["nodes"],
        window=meta["window"],
        dim=meta["dim"],
        top_k=meta["topk"],
        head_layers=meta["out_layer_num"],
        head_width=meta["out_layer_inter_dim"],
        dropout=0.0,
    )
    return load_weights(network, of_kind(golden.part("w/"), np.float64)).train()


@pytest.fixture(params=["gdn", "gdn_mlp"])
def golden(request):
    return Golden(request.param)


def test_official_weights_go_in_and_come_out_unchanged(golden):
    network = official(golden, np.float32)
    golden.check_part("w/", weights_of(network))
    kinds = {parameter.dtype for parameter in network.parameters()}
    assert kinds == {torch.float32}


def test_forecast_in_double_precision(golden):
    forecast = official(golden)(tensor(golden["x"]))
    golden.check("y64", forecast, DOUBLE)
    loss = mse_loss(forecast, tensor(golden["target"]))
    golden.check("loss_mse64", loss, DOUBLE)


def test_forecast_in_single_precision(golden):
    for dtype in PRECISIONS:
        forecast = official(golden, dtype)(tensor(golden["x"], dtype))
        assert forecast.dtype == tensor(np.zeros(1), dtype).dtype
        golden.check("y", forecast, SINGLE)
        golden.check(
            "loss_mse", mse_loss(forecast, tensor(golden["target"], dtype)), SINGLE
        )


def test_graph(golden):
    for dtype in PRECISIONS:
        network = official(golden, dtype)
        nearest = network.detailed(tensor(golden["x"], dtype)).nearest
        golden.check("topk_idx", nearest)
        n, k = nearest.shape
        edges = np.stack([nearest.flatten(), np.repeat(np.arange(n), k)])
        assert (in_order(edges) == in_order(golden["edge_index"])).all()
        golden.compared.add("edge_index")


def test_attention(golden):
    for dtype in PRECISIONS:
        network = official(golden, dtype)
        output = network.detailed(tensor(golden["x"], dtype))
        theirs = golden["att_edge_index"]
        # Nothing is gathered along an edge that they have not.
        ours = edges_with_weight(output.attention)
        assert in_order(ours).tolist() == in_order(theirs).tolist()
        golden.compared.add("att_edge_index")
        golden.check("att_weight", attention_on(theirs, output.attention), SINGLE)


def test_what_nodes_gather_and_make_of_it(golden):
    for dtype in PRECISIONS:
        output = official(golden, dtype).detailed(tensor(golden["x"], dtype))
        golden.check("gnn_pre_bn", output.gathered, SINGLE)
        golden.check("gnn_out", output.features, SINGLE)


def test_gradient_of_every_parameter(golden):
    for dtype in PRECISIONS:
        network = official(golden, dtype)
        loss = mse_loss(
            network(tensor(golden["x"], dtype)), tensor(golden["target"], dtype)
        )
        loss.backward()
        gradients = {name: p.grad for name, p in network.named_parameters()}
        golden.check_part("g/", gradients, SINGLE)


def test_training_mode_and_its_running_statistics(golden):
    network = without_dropout(golden)
    golden.check("train_y64", network(tensor(golden["x"])), DOUBLE)
    golden.check_part("train_bn/", statistics(network), DOUBLE)


def test_five_steps_of_adam(golden):
    network = without_dropout(golden)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    losses = []
    for x, target in zip(golden["traj_x"], golden["traj_t"], strict=True):
        loss = mse_loss(network(tensor(x)), tensor(target))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    golden.check("traj_loss", np.array(losses), DOUBLE)
    golden.check_part("traj_w/", weights_of(network), TRAINED)


CHECKS = (
    test_official_weights_go_in_and_come_out_unchanged,
    test_forecast_in_double_precision,
    test_forecast_in_single_precision,
    test_graph,
    test_attention,
    test_what_nodes_gather_and_make_of_it,
    test_gradient_of_every_parameter,
    test_training_mode_and_its_running_statistics,
    test_five_steps_of_adam,
)


def test_no_array_is_left_uncompared(golden):
    for check in CHECKS:
        check(golden)
    inputs = {"x", "target", "traj_x", "traj_t", "meta"}
    assert golden.compared == set(golden.arrays) - inputs
    assert inputs <= golden.given


# ------------------------------------------------------------------- preparation


def recording(values, **known):
    tags = tuple(Tag(name=f"T{k}") for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **known)


def test_rows_are_scaled_and_sampled_as_officially():
    golden = Golden("gdn_preproc")
    train = recording(golden["train_raw"])
    test = recording(golden["test_raw"], labels=golden["test_labels"].astype(np.int8))
    for every, train_key, test_key in (
        (1, "train_norm", "test_norm"),
        (10, "train_down", "test_down"),
    ):
        settings = PreprocessingSettings(
            every=every, sampling="median", scale_before_trim=True, missing="mean"
        )
        learned = Preprocessing.fit(train, settings)
        made = learned.train(train, settings, np.float64)
        golden.check(train_key, made.values, DOUBLE)
        made = learned.test(test, settings, np.float64)
        golden.check(test_key, made.values, DOUBLE)
    blocks = downsampled(test, every=10, sampling="median")
    golden.check("test_labels_down", blocks.labels)
    inputs = {"train_raw", "test_raw", "test_labels"}
    assert golden.compared == set(golden.arrays) - inputs
    assert golden.given == inputs


# ---------------------------------------------------------------- initialisation


def fresh(**known):
    torch.manual_seed(3)
    sizes = {"window": 5, "dim": 64, "top_k": 15, **known}
    return GDNNetwork(51, **sizes)


def test_number_of_parameters():
    network = fresh()
    assert sum(p.numel() for p in network.parameters()) == 4225
    assert network.embedding.weight.numel() == 3264


def test_weights_start_within_the_official_bounds():
    network = fresh(head_layers=2, head_width=20)
    state = weights_of(network)
    for name, bound in {
        "embedding.weight": 64**-0.5,
        "gnn_layers.0.gnn.lin.weight": (6 / 69) ** 0.5,
        "gnn_layers.0.gnn.att_i": (6 / 65) ** 0.5,
        "gnn_layers.0.gnn.att_j": (6 / 65) ** 0.5,
        "out_layer.mlp.0.weight": 64**-0.5,
        "out_layer.mlp.0.bias": 64**-0.5,
        "out_layer.mlp.3.weight": 20**-0.5,
        "out_layer.mlp.3.bias": 20**-0.5,
    }.items():
        drawn = state.pop(name)
        assert abs(drawn).max() <= bound, name
        # Uniform draws come near both ends of their range.
        if drawn.size >= 20:
            assert drawn.min() < -0.8 * bound, name
            assert drawn.max() > 0.8 * bound, name
    for name, array in state.items():
        is_scale = name.endswith(("running_var", "bn.weight", "mlp.1.weight"))
        is_scale |= name == "bn_outlayer_in.weight"
        assert (array == (1 if is_scale else 0)).all(), name


def test_normalisation_has_the_official_constants():
    layers = [m for m in fresh(head_layers=2).modules() if hasattr(m, "momentum")]
    assert len(layers) == 3
    assert {(layer.eps, layer.momentum) for layer in layers} == {(1e-5, 0.1)}


def test_width_of_the_head_means_nothing_to_a_single_layer():
    names = [set(weights_of(fresh(head_width=m))) for m in (8, 64)]
    assert names[0] == names[1]
    x = torch.zeros(2, 51, 5)
    narrow, wide = (fresh(head_width=m).eval()(x) for m in (8, 64))
    assert torch.equal(narrow, wide)


def test_dropout_acts_in_training_alone():
    network, x = fresh(dropout=0.5), torch.rand(4, 51, 5)
    first, second = network(x), network(x)
    assert not torch.equal(first, second)
    network.eval()
    assert torch.equal(network(x), network(x))
