"""Texts whose truth is known: captions of other tasks, the caption with its outcome turned round, and rephrased."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from random import Random

from ares.rubric.caption_parser import ParsedCaption, parse_caption, split_outcome

_FAILURE = "fail to "
_SUCCESS_FORMS = (
    "manage to {}",
    "have the robot {}",
    "the robot manages to {}",
    "{} with the robot arm",
    "use the robot arm to {}",
)
_FAILURE_FORMS = (
    "try to {}, but fail",
    "the robot fails to {}",
    "do not manage to {}",
    "attempt to {} without success",
    "have the robot fail to {}",
)
# Draws from the phrases of a dataset before none of them is taken to be of another task.
_DRAWS = 50


def shipped_phrases() -> list[str]:
    """Phrases of tasks that a robot on a table, in a kitchen or in a simulation hardly ever does, sorted."""
    text = files("ares.rubric").joinpath("foreign_phrases.txt").read_text("utf-8")
    return sorted(line for line in text.splitlines() if line)


def choose_foreign_captions(
    caption: ParsedCaption, known: Sequence[ParsedCaption], phrases: Sequence[str], count: int, random: Random
) -> list[str]:
    """Different captions of other tasks, by turns of the same dataset and of the shipped phrases.

    None shares an object or an action with the caption or with what else is known of the episode.

    Args:
        caption: The caption; the others state the same outcome.
        known: Instructions of the episode, parsed.
        phrases: Phrases of the dataset.
        count: Number of texts; fewer where there are not so many phrases.
        random: Decides which.
    """
    shipped = random.sample(shipped_phrases(), count)
    own = random.sample(phrases, min(len(phrases), _DRAWS))
    candidates = [phrase for pair in zip(own, shipped, strict=False) for phrase in pair]
    candidates += [*own[len(shipped) :], *shipped[len(own) :]]
    claims = [caption, *known]
    fitting = [
        phrase
        for phrase in dict.fromkeys(candidates)
        if not any(_may_agree(parse_caption(phrase), claim) for claim in claims)
    ]
    return [_with_outcome(phrase, caption.outcome == "failure") for phrase in fitting[:count]]


def _may_agree(phrase: ParsedCaption, claim: ParsedCaption) -> bool:
    """Whether two captions share an action or a thing, so that both may be true."""
    things = {noun_phrase.head for noun_phrase in phrase.noun_phrases}
    return bool(
        set(phrase.verbs) & set(claim.verbs)
        or things & {noun_phrase.head for noun_phrase in claim.noun_phrases}
    )


def make_instruction_caption(instruction: str, succeeds: bool | None) -> str:
    """An instruction as a caption of an episode; it is carried out unless the source says that it failed."""
    _, phrase = split_outcome(instruction)
    return _with_outcome(phrase, succeeds is False) if phrase else ""


def flip_caption_outcome(caption: ParsedCaption, succeeds: bool | None) -> str:
    """The action of a caption with the outcome that the episode does not have, or that the caption does not state.

    Args:
        caption: The caption.
        succeeds: Whether the episode succeeds; None where the source does not say.
    """
    states_success = caption.outcome != "failure" if succeeds is None else succeeds
    return _with_outcome(caption.phrase, states_success)


def rephrased_text(caption: ParsedCaption, random: Random) -> str:
    """A caption in other words, true exactly where the caption is."""
    forms = _FAILURE_FORMS if caption.outcome == "failure" else _SUCCESS_FORMS
    return random.choice(forms).format(caption.phrase)


def _with_outcome(phrase: str, is_failure: bool) -> str:
    return f"{_FAILURE}{phrase}" if is_failure else phrase
