"""GeCo: each channel told by a formula of a few others (Wolsing et al., 2025).

From the bottom up: `formulas` and `transitions` are what it is all about, `candidates`
what is tried; `inner_products` and `closed_form` judge all of it at once, `exact_fit`
and `oracle` one at a time; `search` chooses, with `checkpoint` to stop and go on;
`cusum` raises the alarms, `ipal_model` is what others read; `detector` has it all.
"""

from sightline.detectors.geco.cusum import CusumAlarms
from sightline.detectors.geco.detector import GeCo
from sightline.detectors.geco.formulas import Formula
from sightline.detectors.geco.settings import GeCoSettings

__all__ = ["CusumAlarms", "Formula", "GeCo", "GeCoSettings"]
