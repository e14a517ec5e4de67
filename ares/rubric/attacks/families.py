"""The families of the battery: what each must do, and the bound that fails it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FrameChange = Literal["none", "blank", "scrambled", "reversed"]
# Share of the texts of a family that may pass; of flipped outcomes, which are hard to see; and of the rate of the exact
# truth that true paraphrases have to reach.
MOST_ACCEPTED, MOST_FLIPPED_ACCEPTED, LEAST_OF_EXACT = 0.02, 0.05, 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackFamily:
    """Captions of one kind.

    Attributes:
        name: Name ("wrong_verb").
        is_true: Whether its captions are true: they have to be accepted.
        bound: Share accepted at most; of true ones, at least, as a share of the rate of exact truth.
        frames: What is done to the frames before they are judged.
        criteria: Criteria of which at least one should not be met, of the shipped rubric; empty where any may be.
    """

    name: str
    is_true: bool = False
    bound: float = MOST_ACCEPTED
    frames: FrameChange = "none"
    criteria: tuple[str, ...] = ()


def _false(*names: str, criteria: tuple[str, ...] = ()) -> list[AttackFamily]:
    return [AttackFamily(name=name, criteria=criteria) for name in names]


def _true(*names: str) -> list[AttackFamily]:
    return [AttackFamily(name=name, is_true=True, bound=LEAST_OF_EXACT) for name in names]


EXACT = "exact_truth"
# In the order in which a report shows them.
FAMILIES: dict[str, AttackFamily] = {
    family.name: family
    for family in [
        *_true(EXACT, "paraphrase", "third_person", "reworded"),
        *_false("wrong_verb", criteria=("VERB",)),
        *_false("wrong_object", criteria=("OBJECT", "NOADD")),
        *_false("wrong_destination", criteria=("DESTINATION", "SOURCE", "NOADD")),
        *_false("wrong_colour", criteria=("ATTRIBUTES", "OBJECT", "NOADD")),
        *_false("wrong_direction", criteria=("DIRECTION", "MANNER", "VERB")),
        AttackFamily(name="flipped_outcome", bound=MOST_FLIPPED_ACCEPTED, criteria=("OUTCOME",)),
        *_false("dropped", "not_done", "negated", criteria=("OUTCOME", "VERB", "NOADD", "COMPLETE")),
        *_false("other_episode_other_task", "other_episode_same_task"),
        *_false("invented_detail", "invented_actor", "invented_manner", criteria=("NOADD", "MANNER")),
        *_false("verb_only", "object_only", "half_of_the_action", "generic", criteria=("COMPLETE", "OBJECT")),
        *_false("repeated", "reversed_words", "keyword_soup", "hedged", "homoglyphs"),
        *_false("judge_addressed", "fake_json", "delimiters", criteria=("PITFALLS",)),
        *_false("rubric_echo", "other_instruction", "off_topic", "other_language", "empty", "mixture"),
        *(AttackFamily(name=f"{change}_frames", frames=change) for change in ("blank", "scrambled")),
        AttackFamily(name="reversed_frames", frames="reversed"),
    ]
}
