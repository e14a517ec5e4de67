"""How the reply of a chat completion is read: its texts, its usage, and the probability of each choice."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from ares_annotators.models.base import VlmRequest
from ares_annotators.models.server.chat_request import CHOICE_KEY


@dataclass(frozen=True, slots=True)
class ReplyToken:
    """A token of a reply.

    Attributes:
        text: Its text.
        logprob: Natural logarithm of its probability.
        alternatives: The same of the most probable tokens at its position, itself included or not.
    """

    text: str
    logprob: float
    alternatives: Mapping[str, float]


def choice_probabilities(
    choices: Sequence[str], tokens: Sequence[ReplyToken], reply: str
) -> dict[str, float]:
    """The probability of each choice, summing to 1; empty where the tokens cannot say it.

    At each position a token that leads away from the reply gives its probability to the choices that it leads to, in
    equal parts. Where one choice is left, it gets what remains.

    Args:
        choices: The choices.
        tokens: Tokens of the whole reply.
        reply: The choice that was made; the tokens may have other text around it, such as JSON.
    """
    before, path = _tokens_of_choice(tokens, reply)
    mass = dict.fromkeys(choices, 0.0)
    prefix, remaining = "", 1.0
    for position, token in enumerate(path):
        junk = before if position == 0 else ""
        texts = {**token.alternatives, token.text: token.logprob}
        for text, logprob in texts.items():
            if text != token.text and text.startswith(junk):
                _share_probability(mass, choices, prefix + text[len(junk) :], remaining * math.exp(logprob))
        prefix += token.text[len(junk) :]
        remaining *= math.exp(token.logprob)
        if sum(choice.startswith(prefix) or prefix.startswith(choice) for choice in choices) <= 1:
            break
    if not path:
        return {}
    mass[reply] += remaining
    total = sum(mass.values())
    return {choice: value / total for choice, value in mass.items()} if 0 < total < math.inf else {}


def _share_probability(mass: dict[str, float], choices: Sequence[str], text: str, probability: float) -> None:
    """Give a probability to the choices that a text is the beginning of, or that it continues."""
    text = text.lstrip() if not any(choice.startswith(text) for choice in choices) else text
    if text in mass:
        mass[text] += probability
        return
    fitting = [
        choice for choice in choices if text and (choice.startswith(text) or _ends_choice(text, choice))
    ]
    for choice in fitting:
        mass[choice] += probability / len(fitting)


def _ends_choice(text: str, choice: str) -> bool:
    """Whether a text is a choice with something behind it that is no letter or digit, such as a quote."""
    return text.startswith(choice) and not text[len(choice) :][:1].isalnum()


def _tokens_of_choice(tokens: Sequence[ReplyToken], reply: str) -> tuple[str, Sequence[ReplyToken]]:
    """The tokens from the one in which a choice begins, and the text of that token before the choice."""
    text = "".join(token.text for token in tokens)
    start = text.rfind(reply)
    if start < 0:
        return "", ()
    offset = 0
    for index, token in enumerate(tokens):
        if offset + len(token.text) > start:
            return token.text[: start - offset], tokens[index:]
        offset += len(token.text)
    return "", ()


# No model reads or writes as many tokens in one call: a larger number is a mistake of the server.
_MOST_TOKENS = 100_000_000
# A token has some four characters; a word that is one token rarely has more than 30.
_MOST_CHARACTERS_PER_TOKEN = 32
_Tokens = Annotated[int, Field(strict=True, ge=0, le=_MOST_TOKENS)]


class _Usage(BaseModel):
    prompt_tokens: _Tokens
    completion_tokens: _Tokens


class _TopToken(BaseModel):
    token: str
    logprob: float


class _TokenLogprob(_TopToken):
    top_logprobs: list[_TopToken] = []


class _Logprobs(BaseModel):
    content: list[_TokenLogprob] | None = None


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Completion(BaseModel):
    choices: list[_Choice]
    model: str = ""
    usage: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionReply:
    """What a server answered to one request.

    Attributes:
        texts: The replies that can be used.
        problem: Why there is none, or "".
        detail: The reply that cannot be used, shortened.
        is_unusable: The model replied, but not in a form that can be used.
        unusable_text: That reply, or "".
        tokens: Tokens read and written, or None where the server does not say it in a form that can be used.
        model: The server's name of the model that replied, or "".
        probabilities: Probability of each choice, where they were asked for.
        has_no_probabilities: They were asked for, and the reply has none.
    """

    texts: Sequence[str] = ()
    problem: str = ""
    detail: str = ""
    is_unusable: bool = False
    unusable_text: str = ""
    tokens: tuple[int, int] | None = None
    model: str = ""
    probabilities: Mapping[str, float]
    has_no_probabilities: bool = False


def read_completion(body: bytes, request: VlmRequest, max_tokens: int) -> CompletionReply:
    """Read the body of an answer with status 200.

    Args:
        body: The body.
        request: What was asked.
        max_tokens: Most tokens of one reply; a server that writes far more than these is not read.
    """
    try:
        document = json.loads(body)
        completion = _Completion.model_validate(document)
    except (ValueError, RecursionError):
        shown = " ".join(body[:400].decode(errors="replace").split())[:200]
        return _problem_reply("model server did not answer with a completion", shown, _usage_of(body), "")
    tokens = _read_usage(completion.usage)
    if not completion.choices:
        return _problem_reply("model server sent no choice", "", tokens, completion.model)
    longest = max_tokens * _MOST_CHARACTERS_PER_TOKEN
    problems = [_choice_problem(choice, request, longest) for choice in completion.choices]
    usable = [choice for choice, problem in zip(completion.choices, problems, strict=True) if not problem]
    if not usable:
        message = completion.choices[0].message
        text = message.content if message else None
        problem = _problem_reply(problems[0], repr(text)[:200], tokens, completion.model)
        return replace(problem, is_unusable=True, unusable_text=(text or "")[:longest])
    texts = [_reply_text(choice, request) for choice in usable]
    probabilities = _reply_probabilities(usable[0], request) if request.probabilities else {}
    if request.probabilities and not probabilities:
        missing = _problem_reply(
            "model server sent no probabilities", repr(texts[0])[:200], tokens, completion.model
        )
        return replace(missing, has_no_probabilities=True)
    return CompletionReply(texts=texts, tokens=tokens, model=completion.model, probabilities=probabilities)


def _problem_reply(problem: str, detail: str, tokens: tuple[int, int] | None, model: str) -> CompletionReply:
    return CompletionReply(problem=problem, detail=detail, tokens=tokens, model=model, probabilities={})


def _choice_problem(choice: _Choice, request: VlmRequest, longest: int) -> str:
    message = choice.message
    if message is None:
        return "model server sent no message"
    if message.refusal:
        return "model refused"
    if choice.finish_reason == "length":
        return "reply was cut at its length limit"
    if choice.finish_reason == "content_filter":
        return "reply was blocked by a content filter"
    if message.content is None:
        return "model server sent no text"
    if len(message.content) > longest:
        return "reply is longer than its length limit"
    if request.choices and _reply_text(choice, request) not in request.choices:
        return "reply is none of the choices"
    return ""


def _reply_text(choice: _Choice, request: VlmRequest) -> str:
    """The text of a reply; of a choice that a JSON object holds, the choice."""
    assert choice.message is not None
    text = choice.message.content or ""
    if not request.choices or text.strip() in request.choices:
        return text.strip() if request.choices else text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(document.get(CHOICE_KEY)) if isinstance(document, dict) else text


def _reply_probabilities(choice: _Choice, request: VlmRequest) -> dict[str, float]:
    content = choice.logprobs.content if choice.logprobs else None
    tokens = [
        ReplyToken(entry.token, entry.logprob, {top.token: top.logprob for top in entry.top_logprobs})
        for entry in content or ()
    ]
    return choice_probabilities(request.choices, tokens, _reply_text(choice, request))


def _read_usage(usage: Any) -> tuple[int, int] | None:
    try:
        read = _Usage.model_validate(usage)
    except ValidationError:
        return None
    return read.prompt_tokens, read.completion_tokens


def _usage_of(body: bytes) -> tuple[int, int] | None:
    """The usage in a document that is no completion: it was paid all the same."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return _read_usage(document.get("usage")) if isinstance(document, dict) else None
