"""Models of Time-Series-Library as detectors.

The library is no package that can be installed: its user has a clone of it, and gives
a model and the settings it was made from.
"""

import copy
from typing import Any

import numpy as np

from sightline.data.arrays import Ints, require
from sightline.detectors.adapters.adapter import (
    Adapter,
    adapter_settings,
    check_expected,
    observation,
    runs_of,
)
from sightline.detectors.adapters.forecasters import row_count
from sightline.detectors.base import Residuals
from sightline.detectors.preprocessing import Scaled, Scaling
from sightline.errors import StreamError

# Windows that a network gets at a time when it forecasts.
_WINDOWS_AT_ONCE = 512


class FromTimeSeriesLibrary(Adapter):
    """A detector that expects what a model of Time-Series-Library forecasts.

    For modules that are called as ``model(x_enc, x_mark_enc, x_dec, x_mark_dec)``, as
    all models there are. With the task ``anomaly_detection`` a row is expected as the
    last row of its reconstructed window, else as the first row of the forecast. Both
    marks are None: the calendar is no input.

    Parameters
    ----------
    model : torch.nn.Module
        Made from `configs`; it is copied and not changed. Its own type of numbers is
        used.
    configs : object
        The library's settings: ``seq_len``; for forecasts ``pred_len`` and
        ``label_len``; ``task_name``; for training ``train_epochs``, ``batch_size`` and
        ``learning_rate``. Training is the library's: Adam on the mean squared error of
        the whole forecast. ``train_epochs = 0`` keeps a trained model as it is.
    every : int
        Make one row (the median) of `every` steps.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    validation_share : float
        Share of train that is held out and not learned from: one block, its place
        drawn at random.
    seed : int
        Seed of that draw and of the training.
    name : str, optional
        Name of the detector; else the module that defines the model.

    Raises
    ------
    StreamError
        If the settings lack a length.
    MissingExtraError
        If torch is not installed.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> configs = SimpleNamespace(seq_len=8, label_len=4, pred_len=1)
    >>> FromTimeSeriesLibrary(print, configs)
    Traceback (most recent call last):
    ...
    sightline.errors.StreamError: FromTimeSeriesLibrary takes a torch module, made from
    the library's settings; got builtin_function_or_method.
    """

    def __init__(
        self,
        model: Any,
        configs: Any,
        *,
        every: int = 1,
        trim_s: float = 0.0,
        validation_share: float = 0.2,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        torch = require("torch", extra="detectors", caller="FromTimeSeriesLibrary")
        if not isinstance(model, torch.nn.Module):
            raise StreamError(
                "FromTimeSeriesLibrary takes a torch module, made from the library's "
                f"settings; got {type(model).__name__}."
            )
        settings = adapter_settings(every, trim_s, validation_share, seed)
        # Every class there is called Model; its module has the published name.
        title = name or type(model).__module__.rpartition(".")[2]
        self.is_forecast = "anomaly" not in str(getattr(configs, "task_name", ""))
        super().__init__(
            title, "forecast" if self.is_forecast else "reconstruction", settings
        )
        self.model, self.configs = model, configs
        self.seq_len = row_count(getattr(configs, "seq_len", None), "seq_len")
        self.pred_len = self.label_len = 0
        if self.is_forecast:
            self.pred_len = row_count(getattr(configs, "pred_len", None), "pred_len")
            self.label_len = int(getattr(configs, "label_len", 0))
            if not 0 <= self.label_len <= self.seq_len:
                raise StreamError(
                    f"`label_len` must be between 0 and `seq_len` ({self.seq_len}); "
                    f"got {self.label_len}."
                )
        self.lags = self.seq_len if self.is_forecast else self.seq_len - 1

    def _learn(self, train: Scaled, trained: Ints, scaling: Scaling) -> Any:
        import torch

        model = copy.deepcopy(self.model)
        epochs = int(getattr(self.configs, "train_epochs", 10))
        if not epochs:
            return model.eval()
        rows = trained
        if self.pred_len > 1:
            # All rows of the forecast are learned from, so that all must be there.
            runs = runs_of(trained, train.breaks)
            cut = [run[: max(0, len(run) - self.pred_len + 1)] for run in runs]
            rows = np.concatenate(cut)
        batch = int(getattr(self.configs, "batch_size", 32))
        rate = float(getattr(self.configs, "learning_rate", 1e-4))
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        draw = np.random.default_rng(self.settings.seed)
        values = self._tensor(model, train.values)
        model.train()
        for _ in range(epochs):
            order = draw.permutation(rows)
            for start in range(0, len(order), batch):
                part = order[start : start + batch]
                optimiser.zero_grad()
                loss = torch.nn.functional.mse_loss(*self._pair(model, values, part))
                loss.backward()
                optimiser.step()
        return model.eval()

    def _row_residuals(
        self, learned: Any, scaled: Scaled, scaling: Scaling
    ) -> Residuals:
        import torch

        from sightline.detectors.training import one_torch_thread

        values = np.asarray(scaled.values, np.float64)
        rows, tensor = self._rows(scaled), self._tensor(learned, scaled.values)
        residuals = np.empty((len(rows), values.shape[1]))
        with torch.no_grad(), one_torch_thread():
            for start in range(0, len(rows), _WINDOWS_AT_ONCE):
                part = rows[start : start + _WINDOWS_AT_ONCE]
                output = self._output(learned, tensor, part)
                first = output[:, -self.pred_len] if self.is_forecast else output[:, -1]
                expected = first.cpu().numpy().astype(np.float64)
                checked = check_expected(expected, values[part], self.card.title)
                residuals[start : start + len(part)] = values[part] - checked
        return observation(residuals, rows)

    def _tensor(self, model: Any, values: Any) -> Any:
        """Return rows as a tensor of the model's own type, on its device."""
        import torch

        like = next(model.parameters())
        return torch.as_tensor(
            np.asarray(values, np.float64), dtype=like.dtype, device=like.device
        )

    def _windows(self, values: Any, rows: Ints, first: int, last: int) -> Any:
        """Return the rows from `first` to before `last`, counted from each row."""
        return values[rows[:, np.newaxis] + np.arange(first, last)]

    def _output(self, model: Any, values: Any, rows: Ints) -> Any:
        """Return what the model gives for windows that belong to rows."""
        import torch

        if not self.is_forecast:
            return model(self._windows(values, rows, -self.lags, 1), None, None, None)
        past = self._windows(values, rows, -self.seq_len, 0)
        known = past[:, self.seq_len - self.label_len :]
        ahead = torch.zeros_like(past[:, :1]).repeat(1, self.pred_len, 1)
        output = model(past, None, torch.cat([known, ahead], dim=1), None)
        return output[:, -self.pred_len :]

    def _pair(self, model: Any, values: Any, rows: Ints) -> tuple[Any, Any]:
        """Return what the model gives, and what was observed."""
        first, last = (0, self.pred_len) if self.is_forecast else (-self.lags, 1)
        observed = self._windows(values, rows, first, last)
        return self._output(model, values, rows), observed

    def _about(self) -> dict[str, object]:
        return {
            "model": type(self.model).__name__,
            "seq_len": self.seq_len,
            "label_len": self.label_len,
            "pred_len": self.pred_len,
        }
