"""GeCo: each channel predicted by a formula of a few others (Wolsing et al., 2025).

From the bottom up: `formulas` has the formulas and the transitions they are fitted to;
`closed_form` judges all candidates at once; `search` chooses the best and can be
interrupted; `rule` raises the alarms; `ipal_model` reads and writes IPAL's model files;
`detector` combines them.
"""

from sightline.detectors.geco.detector import GeCo, GeCoSettings
from sightline.detectors.geco.formulas import Formula
from sightline.detectors.geco.rule import CusumAlarms

__all__ = ["CusumAlarms", "Formula", "GeCo", "GeCoSettings"]
