"""Runs the attack battery against a judge, and compares two sides on the same segments; stores no grade."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.attack.battery import AttackQuote, AttackRequest, AttackRun, quote_attack, run_attack

__all__ = ["AttackQuote", "AttackRequest", "AttackRun", "quote_attack", "run_attack"]

__getattr__ = lazy_exports(__name__)
