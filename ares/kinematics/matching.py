"""Which dimensions of a state are the joints of a chain, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ares.quality.kinds import name_tokens

# Words that tell no joint from another: "kLeftElbow" is "left_elbow_joint", "shoulder_pan.pos" is "shoulder_pan".
_FILLERS = frozenset({"k", "joint", "joints", "pos", "position", "qpos", "observation", "state", "states"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMatch:
    """The dimensions of a state that are joints.

    Attributes:
        dimensions: Number of the dimension by joint.
        unmatched: Joints without a dimension, in order.
    """

    dimensions: Mapping[str, int]
    unmatched: tuple[str, ...]


def match_joints(
    joints: Iterable[str], names: tuple[str, ...], stated: Mapping[str, str] | None = None
) -> JointMatch:
    """Find the dimension of each joint: the stated one, that of the same name, or that of the same words.

    Words that two dimensions or two joints share decide nothing.

    Args:
        joints: Names of the joints.
        names: Names of the dimensions of the state.
        stated: Joint by name of its dimension.
    """
    joints = tuple(joints)
    by_joint = {joint: names.index(name) for name, joint in (stated or {}).items() if name in names}
    by_name = {name: number for number, name in enumerate(names)}
    by_words = _unique_words(dict(enumerate(names)))
    joint_words = {number: words for words, number in _unique_words(dict(enumerate(joints))).items()}
    dimensions = {}
    for position, joint in enumerate(joints):
        number = by_joint.get(joint, by_name.get(joint, by_words.get(joint_words.get(position, ()))))
        if number is not None:
            dimensions[joint] = number
    return JointMatch(
        dimensions=dimensions, unmatched=tuple(joint for joint in joints if joint not in dimensions)
    )


def _unique_words(names: Mapping[int, str]) -> dict[tuple[str, ...], int]:
    """Numbers by the words of their names, without those that are empty or shared."""
    by_words: dict[tuple[str, ...], list[int]] = {}
    for number, name in names.items():
        words = tuple(token for token in name_tokens(name) if token not in _FILLERS)
        by_words.setdefault(words, []).append(number)
    return {words: numbers[0] for words, numbers in by_words.items() if words and len(numbers) == 1}
