"""Captions that a judge must refuse, and true rewordings that it must not: the attack battery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.rubric.attacks.compose import AttackText, KnownCaption, compose_battery
    from ares.rubric.attacks.families import EXACT, FAMILIES, AttackFamily, FrameChange
    from ares.rubric.attacks.report import AttackResult, BatteryReport, FamilyResult, report_battery
    from ares.rubric.attacks.texts import Texts, hostile_texts, read_paraphrases, shipped_paraphrases

__all__ = [
    "EXACT",
    "FAMILIES",
    "AttackFamily",
    "AttackResult",
    "AttackText",
    "BatteryReport",
    "FamilyResult",
    "FrameChange",
    "KnownCaption",
    "Texts",
    "compose_battery",
    "hostile_texts",
    "read_paraphrases",
    "report_battery",
    "shipped_paraphrases",
]

__getattr__ = lazy_exports(__name__)
