"""TranAD against the official implementation, array by array, and its training."""

import numpy as np
import pytest
import torch
from golden_files import Golden, tensor

from sightline.detectors.networks import weights_of
from sightline.detectors.preprocessing import padded_windows
from sightline.detectors.tranad.network import TranADNetwork, tranad_loss

# What the specification asks for: outputs, losses and gradients; trained weights (Adam
# turns rounding into steps where the true gradient is 0); the table of positions,
# which is made in single precision.
DOUBLE, TRAINED, TABLE = 1e-10, 1e-8, 1e-6
# No array of theirs is in single precision: ours must come as near as it can.
SINGLE = 2e-5


def batch_first(golden, key):
    return tensor(golden[key]).transpose(0, 1)


def time_first(rows):
    return rows.transpose(0, 1)


def official(golden, weights="w/"):
    return TranADNetwork.of_weights(golden.part(weights), dropout=0.0).eval()


@pytest.fixture
def golden():
    return Golden("tranad")


@pytest.fixture
def training():
    return Golden("tranad_train")


def test_official_weights_go_in_and_come_out_unchanged(golden):
    golden.check_part("w/", weights_of(official(golden)))


def test_table_of_positions(golden):
    network = TranADNetwork(7)
    assert network.pos_encoder.pe.dtype == torch.float32
    golden.check("w/pos_encoder.pe", network.pos_encoder.pe, TABLE)


def test_both_outputs(golden):
    first, second = official(golden)(batch_first(golden, "src"))
    golden.check("x1", first[np.newaxis], DOUBLE)
    golden.check("x2", second[np.newaxis], DOUBLE)


def test_both_outputs_in_single_precision(golden):
    network = official(golden).float()
    first, second = network(batch_first(golden, "src").float())
    assert second.dtype == torch.float32
    golden.check("x1", first[np.newaxis], SINGLE)
    golden.check("x2", second[np.newaxis], SINGLE)


def test_target_is_the_last_row_unless_told(golden):
    x = batch_first(golden, "src")
    golden.check("tgt", x[np.newaxis, :, -1])
    told = official(golden)(x, tensor(golden["tgt"][0]))
    untold = official(golden)(x)
    for with_target, without in zip(told, untold, strict=True):
        assert torch.equal(with_target, without)


def test_another_target(golden):
    x, target = batch_first(golden, "src"), tensor(golden["tgt_alt"][0])
    first, second = official(golden)(x, target)
    golden.check("x1_alt", first[np.newaxis], DOUBLE)
    golden.check("x2_alt", second[np.newaxis], DOUBLE)


def test_score_and_residual(golden):
    x = batch_first(golden, "src")
    _, second = official(golden)(x)
    golden.check("y_pred", second, DOUBLE)
    golden.check("residual", x[:, -1] - second, DOUBLE)
    golden.check("score", (x[:, -1] - second) ** 2, DOUBLE)


def test_what_happens_on_the_way(golden):
    network, x = official(golden), batch_first(golden, "src")
    results = {}
    for part in (
        "pos_encoder",
        "transformer_encoder",
        "transformer_decoder1",
        "transformer_decoder2",
    ):
        network.get_submodule(part).register_forward_hook(
            lambda _, __, output, part=part: results.setdefault(part, []).append(output)
        )
    first, _ = network(x)
    golden.check("mid/focus_phase2", time_first((first[:, None] - x) ** 2), DOUBLE)
    decoded = [results[f"transformer_decoder{k}"][0] for k in (1, 2)]
    for phase in (1, 2):
        for name, arrays in (
            ("enc_in", results["pos_encoder"]),
            ("memory", results["transformer_encoder"]),
            ("dec", decoded),
        ):
            ours = time_first(arrays[phase - 1])
            golden.check(f"mid/{name}_phase{phase}", ours, DOUBLE)


def test_loss_of_several_epochs(golden):
    x = batch_first(golden, "src")
    first, second = official(golden)(x)
    for epoch in (1, 2, 3, 5):
        loss = tranad_loss(first, second, x[:, -1], epoch)
        golden.check(f"loss_n{epoch}", loss, DOUBLE)


def test_gradient_of_every_parameter(golden):
    for epoch in (1, 3):
        network = official(golden)
        x = batch_first(golden, "src")
        tranad_loss(*network(x), x[:, -1], epoch).backward()
        # A zero gradient must be there as zeros, for Adam counts it as a step.
        gradients = {name: p.grad for name, p in network.named_parameters()}
        golden.check_part(f"grad_n{epoch}/", gradients, DOUBLE)


CHECKS = (
    test_official_weights_go_in_and_come_out_unchanged,
    test_table_of_positions,
    test_both_outputs,
    test_target_is_the_last_row_unless_told,
    test_another_target,
    test_score_and_residual,
    test_what_happens_on_the_way,
    test_loss_of_several_epochs,
    test_gradient_of_every_parameter,
)


def test_no_array_is_left_uncompared(golden):
    for check in CHECKS:
        check(golden)
    inputs = {"src", "tgt_alt"}
    assert golden.compared == set(golden.arrays) - inputs
    assert inputs <= golden.given


# ----------------------------------------------------------------- their training


def official_windows(series):
    """Each row's window ends one row before it, as the official code has it."""
    cut = padded_windows(series, np.array([0]), 10, ahead=1)
    return cut.values[cut.starts[:, np.newaxis] + np.arange(cut.length)]


def test_windows_are_the_official_ones(training):
    training.check("windows", official_windows(training["series"]))
    training.check("windows_test", official_windows(training["test"]))


def test_seven_epochs_of_training(training):
    windows = tensor(official_windows(training["series"]))
    network = official(training, "w0/").train()
    training.check_part("w0/", weights_of(network))
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=0.008, weight_decay=1e-5, fused=True
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 5, 0.9)
    losses, rates = [], []
    for epoch in range(1, 8):
        of_batches = []
        for x in windows.split(128):
            loss = tranad_loss(*network(x), x[:, -1], epoch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            of_batches.append(loss.item())
        schedule.step()
        losses.append(np.mean(of_batches))
        rates.append(optimiser.param_groups[0]["lr"])
        if epoch == 1:
            training.check_part("w_epoch1/", weights_of(network), TRAINED)
    training.check("epoch_loss", np.array(losses), DOUBLE)
    training.check("lr_after_epoch", np.array(rates), 1e-15)
    training.check_part("w/", weights_of(network), TRAINED)


def test_scores_of_the_trained_network(training):
    network = official(training)
    for name, series in (("train", "series"), ("test", "test")):
        x = tensor(official_windows(training[series]))
        _, second = network(x)
        training.check(f"{name}_pred", second, DOUBLE)
        training.check(f"{name}_score", (x[:, -1] - second) ** 2, DOUBLE)


def test_no_array_of_the_training_is_left_uncompared(training):
    for check in (
        test_windows_are_the_official_ones,
        test_seven_epochs_of_training,
        test_scores_of_the_trained_network,
    ):
        check(training)
    inputs = {"series", "test"}
    assert training.compared == set(training.arrays) - inputs
    assert inputs <= training.given


# ---------------------------------------------------------------- initialisation


@pytest.mark.parametrize(
    ("channels", "count"),
    [(1, 369), (2, 854), (51, 225_519), (123, 1_270_023), (127, 1_352_979)],
)
def test_number_of_parameters(channels, count):
    assert count == 82 * channels**2 + 239 * channels + 48
    network = TranADNetwork(channels)
    assert sum(p.numel() for p in network.parameters()) == count


def test_weights_start_within_the_official_bounds():
    torch.manual_seed(3)
    network = TranADNetwork(20)
    for name, parameter in network.named_parameters():
        drawn = parameter.detach().numpy()
        if name.endswith(("in_proj_bias", "out_proj.bias")):
            assert (drawn == 0).all(), name
            continue
        if name.endswith("in_proj_weight"):
            bound = (1.5 / 40) ** 0.5
        else:
            bound = (16 if "linear2" in name else 40) ** -0.5
        assert abs(drawn).max() <= bound, name
        # Uniform draws come near both ends of their range.
        if drawn.size >= 20:
            assert drawn.min() < -0.8 * bound, name
            assert drawn.max() > 0.8 * bound, name
