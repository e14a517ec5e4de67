"""The kind of every dimension of a signal: arm joint, gripper, hand, base, end effector, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.kinds.evidence import ValueEvidence, value_evidence
    from ares.quality.kinds.learnt import kinds_by_values, learn_kinds
    from ares.quality.kinds.names import (
        CHECKED_KINDS,
        DimensionKind,
        are_checked,
        arm_of,
        kinds_by_name,
        name_tokens,
    )
    from ares.quality.kinds.quaternions import quaternion_starts, without_sign_flips
    from ares.quality.kinds.values import switch_like

__all__ = [
    "CHECKED_KINDS",
    "DimensionKind",
    "ValueEvidence",
    "are_checked",
    "arm_of",
    "kinds_by_name",
    "kinds_by_values",
    "learn_kinds",
    "name_tokens",
    "quaternion_starts",
    "switch_like",
    "value_evidence",
    "without_sign_flips",
]

__getattr__ = lazy_exports(__name__)
