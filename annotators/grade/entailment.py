"""Whether an observed action entails a caption, slot by slot, as a model of texts answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from annotators.base import PaidFailure, Preflight
from annotators.models import (
    UNKNOWN_UNTIL_LOADED,
    Capability,
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    make_test_call,
    price_usd,
    require_capabilities,
)
from annotators.prompting import read_prompt
from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.errors import RequestError
from ares.settings import Price

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.store import Stores


@dataclass(frozen=True, slots=True)
class EntailmentProbabilities:
    """How sure it is that a claim follows from what was observed; the three add up to 1.

    Attributes:
        entailed: Probability that the claim is true where the observation is.
        contradicted: Probability that it is then false.
        neutral: Probability that the observation says neither.
    """

    entailed: float
    contradicted: float
    neutral: float


NEUTRAL = EntailmentProbabilities(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionEntailment:
    """A caption against one observed action.

    Attributes:
        slots: Entailment by slot of the caption ("verb", "object", ...); a slot that is not there is NEUTRAL.
        outcome: Probability of each outcome that the caption may state, by its name; empty where it was not read.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    slots: Mapping[str, EntailmentProbabilities]
    outcome: Mapping[str, float] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)

    def slot(self, name: str) -> EntailmentProbabilities:
        """The entailment of one slot."""
        return self.slots.get(name, NEUTRAL)


class EntailmentModel(Protocol):
    """A model that compares texts, and sees no frames."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its answers what they are, for the maker of grades."""

    @property
    def most_pairs(self) -> int:
        """Most observed actions that one caption is compared with; the likeliest come first."""

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[CaptionEntailment | PaidFailure]:
        """The entailment of pairs (observed action, caption), in the slots that are asked of each pair.

        A failure means that the model could not be called, and that a retry may help.
        """


MAX_NEW_TOKENS = 10
# For estimates only.
_PROMPT_TOKENS, _REPLY_TOKENS = 180, 3
CHOICES = ("entailed", "contradicted", "neutral")
_PACKAGE = "annotators.grade"
_QUESTIONS: Mapping[str, str] = {
    "verb": "the action",
    "object": "the thing that is acted on",
    "destination": "where the action ends",
    "source": "where the action starts",
    "attributes": "the colours, sizes and materials",
    "direction": "the direction of the motion",
    "manner": "the way in which it is done",
    "additions": "the claim that nothing else happens than what the first sentence says",
    "complete": "the claim that all of what the first sentence says happens",
}
_CHOICES: frozenset[Capability] = frozenset({"choices"})
_PROBABILITIES: frozenset[Capability] = frozenset({"probabilities"})


class TextModelEntailment:
    """Fills the protocol `annotators.grade.EntailmentModel` by the text mode of a model.

    Args:
        vlm: The model; it keeps its replies and books their cost.
        price: Its price, for estimates.
        remote: Whether its calls cost money.
        needs_probabilities: False takes the bare choice of a model that has no probabilities.

    Raises:
        RequestError: The model cannot choose, or has no probabilities of choices where they are needed.
    """

    # Each pair costs a call for every slot that the parser leaves open.
    most_pairs = 2

    def __init__(
        self, vlm: Vlm, price: Price | None, remote: bool, *, needs_probabilities: bool = True
    ) -> None:
        needed = _CHOICES | _PROBABILITIES if needs_probabilities else _CHOICES
        if UNKNOWN_UNTIL_LOADED not in vlm.name:
            require_capabilities(vlm, needed, "a comparison of texts")
        self._vlm, self._price, self._remote = vlm, price, remote
        self._needs_probabilities = needs_probabilities
        self._asks_probabilities = vlm.capabilities >= _PROBABILITIES
        prompt_hash = short_hash([read_prompt(_PACKAGE, "entail"), dict(_QUESTIONS)])
        self.settings: Mapping[str, Json] = {
            "entailment": f"text:{vlm.name}",
            "entailment_prompt": prompt_hash,
        }

    def estimate(self, slots: int, pairs: int = most_pairs) -> Cost:
        """Expected cost of a caption with so many slots, in other words than each of so many observed actions."""
        calls = slots * pairs
        usd = price_usd(self._price, calls * _PROMPT_TOKENS, calls * _REPLY_TOKENS) if self._remote else 0.0
        return Cost(calls=calls, tokens_in=calls * _PROMPT_TOKENS, tokens_out=calls * _REPLY_TOKENS, usd=usd)

    def preflight(self) -> Preflight:
        """One question whose reply has to be one of the choices. Raises ModelError."""
        return make_test_call(
            self._vlm, _entailment_request("open the drawer", "pull the drawer open", "verb")
        )

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[CaptionEntailment | PaidFailure]:
        """The entailment of the slots that are asked of each pair; the others are neutral."""
        questions = [[(*pair, slot) for slot in own] for pair, own in zip(pairs, slots, strict=True)]
        # The same question of several captions of a batch is asked, and paid, once.
        first = {question: index for index, own in reversed([*enumerate(questions)]) for question in own}
        replies = self._ask([_entailment_request(*question) for question in first]) if first else ()
        by_question = dict(zip(first, replies, strict=True))
        return [
            _pair_entailment(
                {question[2]: by_question[question] for question in own},
                [by_question[question] for question in own if first[question] == index],
            )
            for index, own in enumerate(questions)
        ]

    def _ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """Replies; what a server refuses for want of probabilities is asked again without, from then on at once."""
        sent = [replace(request, probabilities=self._asks_probabilities) for request in requests]
        replies = list(self._vlm.ask(sent))
        failed = [
            index
            for index, reply in enumerate(replies)
            if isinstance(reply, VlmFailure) and reply.has_no_probabilities
        ]
        if self._needs_probabilities or not failed:
            return replies
        self._asks_probabilities = False
        again = self._vlm.ask([replace(sent[index], probabilities=False) for index in failed])
        for index, reply in zip(failed, again, strict=True):
            replies[index] = _with_cost(reply, replies[index].cost)
        return replies


def _with_cost(reply: VlmReply | VlmFailure, before: Cost) -> VlmReply | VlmFailure:
    """A reply with the cost of a call that failed before it."""
    if isinstance(reply, VlmReply) and reply.was_kept:
        return replace(reply, cost=before, was_kept=False)
    return replace(reply, cost=before + reply.cost)


def _entailment_request(observed: str, caption: str, slot: str) -> VlmRequest:
    data = json.dumps({"seen": observed, "caption": caption}, ensure_ascii=True)
    # JSON does not escape markup; escaped, no tag or fence of the caption reaches the model's chat template.
    escaped = re.sub(r"[<>&`|]", lambda match: f"\\u{ord(match.group()):04x}", data)
    prompt = read_prompt(_PACKAGE, "entail").format(question=_QUESTIONS[slot], data=escaped)
    return VlmRequest(images=(), prompt=prompt, choices=CHOICES, probabilities=True)


def _pair_entailment(
    replies: Mapping[str, VlmReply | VlmFailure], paid_for: Sequence[VlmReply | VlmFailure]
) -> CaptionEntailment | PaidFailure:
    paid = sum((reply.cost if isinstance(reply, VlmFailure) else reply.paid for reply in paid_for), Cost())
    failures = [reply.error for reply in replies.values() if isinstance(reply, VlmFailure)]
    if failures:
        return PaidFailure(failures[0], paid)
    return CaptionEntailment(
        slots={
            slot: _entailment_from_reply(reply)
            for slot, reply in replies.items()
            if isinstance(reply, VlmReply)
        },
        cost=sum((reply.cost for reply in replies.values()), Cost()),
        paid=paid,
    )


def _entailment_from_reply(reply: VlmReply) -> EntailmentProbabilities:
    known = reply.probabilities or {reply.text: 1.0}
    probabilities = [known.get(choice, 0.0) for choice in CHOICES]
    entailed, contradicted, neutral = probabilities
    return EntailmentProbabilities(entailed, contradicted, neutral)


def load_entailment(spec: str, options: Options, stores: Stores) -> EntailmentModel | None:
    """The model of a spec; None for "tables", which needs none.

    Args:
        spec: "tables", "hf:FOLDER_OR_HUB_ID" or "openai:MODEL@URL".
        options: Device, key and price.
        stores: Where its replies are kept.

    Raises:
        RequestError: The spec names no model, or one that gives no probabilities.
        ModelError: The model cannot be loaded, or its server cannot be reached.
    """
    if spec == "tables":
        return None
    if not spec.startswith(("hf:", "openai:", "stub:")):
        raise RequestError(
            "no such entailment model",
            f"{spec!r}; give judge, tables, hf:FOLDER or openai:MODEL@http://HOST:PORT/v1",
        )
    from annotators.models import load_vlm

    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    return TextModelEntailment(vlm, options.settings.price, spec.startswith("openai:"))
