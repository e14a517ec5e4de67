"""Reads chat completions: the reply or what is wrong with it, and what the server says that it used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from annotators.models.base import VlmRequest
from annotators.models.server.body import CHOICE_KEY
from annotators.models.server.choice_probabilities import Token, choice_probabilities

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
        tokens: Tokens read and written, or None where the server does not say it in a form that can be used.
        model: The server's name of the model that replied, or "".
        probabilities: Probability of each choice, where they were asked for.
        has_no_probabilities: They were asked for, and the reply has none.
    """

    texts: Sequence[str] = ()
    problem: str = ""
    detail: str = ""
    is_unusable: bool = False
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
        return _problem("model server did not answer with a completion", shown, _usage_of(body), "")
    tokens = _read_usage(completion.usage)
    if not completion.choices:
        return _problem("model server sent no choice", "", tokens, completion.model)
    longest = max_tokens * _MOST_CHARACTERS_PER_TOKEN
    problems = [_choice_problem(choice, request, longest) for choice in completion.choices]
    usable = [choice for choice, problem in zip(completion.choices, problems, strict=True) if not problem]
    if not usable:
        message = completion.choices[0].message
        shown = repr(message.content if message else None)[:200]
        return replace(_problem(problems[0], shown, tokens, completion.model), is_unusable=True)
    texts = [_text(choice, request) for choice in usable]
    probabilities = _probabilities(usable[0], request) if request.probabilities else {}
    if request.probabilities and not probabilities:
        missing = _problem(
            "model server sent no probabilities", repr(texts[0])[:200], tokens, completion.model
        )
        return replace(missing, has_no_probabilities=True)
    return CompletionReply(texts=texts, tokens=tokens, model=completion.model, probabilities=probabilities)


def _problem(problem: str, detail: str, tokens: tuple[int, int] | None, model: str) -> CompletionReply:
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
    if request.choices and _text(choice, request) not in request.choices:
        return "reply is none of the choices"
    return ""


def _text(choice: _Choice, request: VlmRequest) -> str:
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


def _probabilities(choice: _Choice, request: VlmRequest) -> dict[str, float]:
    content = choice.logprobs.content if choice.logprobs else None
    tokens = [
        Token(entry.token, entry.logprob, {top.token: top.logprob for top in entry.top_logprobs})
        for entry in content or ()
    ]
    return choice_probabilities(request.choices, tokens, _text(choice, request))


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
