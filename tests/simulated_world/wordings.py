"""Says claims in words. The sentences were written without the grammar and the word tables of the caption parser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.simulated_world.events import Claim, Verb

# {t} the thing, {s} where it comes from, {e} where it ends, {d} the direction.
_IMPERATIVES: Mapping[Verb, Sequence[str]] = {
    "lift": ("pick up {t}", "lift {t}", "raise {t} from the table", "grasp {t} and hold it up"),
    "place": (
        "pick up {t}{s} and put it in {e}",
        "move {t}{s} into {e}",
        "place {t}{s} in {e}",
        "drop {t}{s} into {e}",
    ),
    "push": ("push {t} to the {d}", "shove {t} to the {d}", "slide {t} to the {d}"),
    "pour": ("pour {t} into {e}", "empty {t} into {e}", "tip {t} out into {e}"),
    "open": ("open {t}", "lift the lid of {t}", "raise the lid of {t}"),
}
_STATEMENTS: Mapping[Verb, Sequence[str]] = {
    "lift": ("The robot picks up {t}.", "{T} is lifted by the robot."),
    "place": ("The robot puts {t} in {e}.", "{T} is placed in {e}."),
    "push": ("The robot pushes {t} to the {d}.", "{T} is pushed to the {d}."),
    "pour": ("The robot pours {t} into {e}.", "{T} is emptied into {e}."),
    "open": ("The robot opens {t}.", "{T} is opened by the robot."),
}


def plain(claim: Claim) -> str:
    """The claim in the first wording."""
    return _finish(_fill(_IMPERATIVES[claim.verb][0], claim), claim)


def wordings(claim: Claim) -> Sequence[str]:
    """The claim in every wording that fits it, the plain one first."""
    imperatives = [_finish(_fill(text, claim), claim) for text in _IMPERATIVES[claim.verb]]
    if not claim.succeeded or claim.is_negated or claim.is_reversed or claim.arm or claim.addition:
        return imperatives
    statements = [] if claim.source else [_fill(text, claim) for text in _STATEMENTS[claim.verb]]
    return [*imperatives, *statements]


def _fill(text: str, claim: Claim) -> str:
    thing = f"the {claim.colour} {claim.kind}"
    source = f" from the {claim.source}" if claim.source else ""
    if not claim.target:
        text = text.removesuffix(" and put it in {e}")
        for end in (" into {e}", " in {e}", " out into {e}"):
            text = text.replace(end, "")
    if not claim.direction:
        text = text.replace(" to the {d}", "")
    return text.format(t=thing, T=thing.capitalize(), s=source, e=f"the {claim.target}", d=claim.direction)


def _finish(text: str, claim: Claim) -> str:
    changes: Sequence[tuple[object, Callable[[str], str]]] = (
        (claim.is_reversed, lambda words: _reverse(words, claim)),
        (claim.arm, lambda words: f"{words} with the {claim.arm} arm"),
        (claim.addition, lambda words: f"{words} {claim.addition}"),
        (claim.is_negated, lambda words: f"do not {words}"),
        (not claim.succeeded, lambda words: f"fail to {words}"),
    )
    for applies, change in changes:
        if applies:
            text = change(text)
    return text


def _reverse(text: str, claim: Claim) -> str:
    return f"put the {claim.colour} {claim.kind} in the {claim.target} and then pick it up"
