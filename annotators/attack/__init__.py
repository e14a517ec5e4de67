"""Runs the attack battery against a judge, and compares two sides on the same segments; stores no grade."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.attack.battery import (
        AttackQuote as AttackQuote,
        AttackRequest as AttackRequest,
        AttackRun as AttackRun,
        quote_caption_attack as quote_caption_attack,
        run_attack as run_attack,
    )

__getattr__ = lazy_exports(__name__)
