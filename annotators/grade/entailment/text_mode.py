"""A vision-language model, or any model of texts, that compares two texts: one call for each slot in question."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from annotators.base import PaidFailure, Preflight
from annotators.grade.entailment.base import Entailment, PairEntailment
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
from annotators.prompts import read_prompt
from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.settings import Price

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


class TextModeEntailment:
    """Fills the protocol `annotators.grade.entailment.EntailmentModel` by the text mode of a model.

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
        return make_test_call(self._vlm, _request("open the drawer", "pull the drawer open", "verb"))

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[PairEntailment | PaidFailure]:
        """The entailment of the slots that are asked of each pair; the others are neutral."""
        questions = [[(*pair, slot) for slot in own] for pair, own in zip(pairs, slots, strict=True)]
        # The same question of several captions of a batch is asked, and paid, once.
        first = {question: index for index, own in reversed([*enumerate(questions)]) for question in own}
        replies = self._ask([_request(*question) for question in first]) if first else ()
        by_question = dict(zip(first, replies, strict=True))
        return [
            _pair(
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


def _request(observed: str, caption: str, slot: str) -> VlmRequest:
    data = json.dumps({"seen": observed, "caption": caption}, ensure_ascii=True)
    # JSON does not escape markup; escaped, no tag or fence of the caption reaches the model's chat template.
    escaped = re.sub(r"[<>&`|]", lambda match: f"\\u{ord(match.group()):04x}", data)
    prompt = read_prompt(_PACKAGE, "entail").format(question=_QUESTIONS[slot], data=escaped)
    return VlmRequest(images=(), prompt=prompt, choices=CHOICES, probabilities=True)


def _pair(
    replies: Mapping[str, VlmReply | VlmFailure], paid_for: Sequence[VlmReply | VlmFailure]
) -> PairEntailment | PaidFailure:
    paid = sum((reply.cost if isinstance(reply, VlmFailure) else reply.paid for reply in paid_for), Cost())
    failures = [reply.error for reply in replies.values() if isinstance(reply, VlmFailure)]
    if failures:
        return PaidFailure(failures[0], paid)
    return PairEntailment(
        slots={slot: _entailment(reply) for slot, reply in replies.items() if isinstance(reply, VlmReply)},
        cost=sum((reply.cost for reply in replies.values()), Cost()),
        paid=paid,
    )


def _entailment(reply: VlmReply) -> Entailment:
    known = reply.probabilities or {reply.text: 1.0}
    probabilities = [known.get(choice, 0.0) for choice in CHOICES]
    entailed, contradicted, neutral = probabilities
    return Entailment(entailed, contradicted, neutral)
