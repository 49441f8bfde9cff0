"""Arrays as text for a page: quantised, compressed, and small."""

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats

# Steps between the lowest and the highest log energy: finer than any screen.
LEVELS = 4095
# Energy of 0 (a residual equal to the mean) is drawn at this one.
LEAST_ENERGY = 1e-12


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array as compressed base64 with its type, for a page to unpack."""
    kinds = {"u1": "Uint8Array", "u2": "Uint16Array", "f4": "Float32Array"}
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    text = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
    kind = kinds[f"{values.dtype.kind}{values.dtype.itemsize}"]
    return {"kind": kind, "shape": list(values.shape), "data": text}


def quantised(values: Floats, levels: int = LEVELS) -> tuple[Any, float, float]:
    """Return whole numbers from 0 to `levels`, and the values these two stand for.

    What is not finite becomes the lowest.
    """
    finite = np.isfinite(values)
    low = float(values[finite].min()) if finite.any() else 0.0
    high = float(values[finite].max()) if finite.any() else 0.0
    wide = high - low or 1.0
    steps = np.where(finite, (values - low) / wide, 0.0) * levels
    kind = np.uint8 if levels <= 255 else np.uint16
    return np.rint(steps).astype(kind), low, low + wide


def log_energy(energy: Floats) -> Floats:
    """Return the decimal logarithm of energies."""
    top = np.finfo(np.float64).max
    return np.asarray(np.log10(np.clip(energy, LEAST_ENERGY, top)))


def packed_energy(energy: Floats) -> dict[str, Any]:
    """Return a whole energy trace, quantised on a log scale."""
    steps, low, high = quantised(log_energy(energy))
    return {
        "low": round(low, 6),
        "high": round(high, 6),
        "levels": LEVELS,
        "n": len(energy),
    } | {"values": packed(steps)}
