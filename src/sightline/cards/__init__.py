"""Visibility cards: what a result shows, in one small file without a row of data.

A card holds no telemetry and no residual. It holds what the figures are made of: where
each attack row stands among the attack-free rows, alarms as runs, attacks with their
verdicts; so most of its figures can be computed again from the card alone
(`verify_card`), and all of them from the stream. Two papers that may not share rows can
share cards.
"""

from sightline.cards.card import (
    CardAttack,
    VisibilityCard,
    card_of_result,
    read_card_file,
    write_card_file,
)
from sightline.cards.verify import Contradiction, Verification, verify_card

__all__ = [
    "CardAttack",
    "Contradiction",
    "Verification",
    "VisibilityCard",
    "card_of_result",
    "read_card_file",
    "verify_card",
    "write_card_file",
]
