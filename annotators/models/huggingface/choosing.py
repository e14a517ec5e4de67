"""Replies that are one of several choices: the model scores them, and writes nothing."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from annotators.models.base import VlmReply, VlmRequest
from annotators.models.huggingface.choice_scores import (
    ChoiceTokens,
    Tokens,
    choice_probabilities,
    choose,
    tell_apart,
)
from annotators.models.huggingface.runtime import Runtime
from annotators.models.huggingface.token_rules import seeded_random
from ares.annotation import Cost

if TYPE_CHECKING:
    import torch


def choose_replies(runtime: Runtime, requests: Sequence[VlmRequest]) -> Sequence[VlmReply]:
    """The choice of each request, with the probabilities of all.

    Choices that differ in their first token, or share one beginning, cost one forward pass of the prompt.
    """
    choices = [_tokenise(runtime, request.choices) for request in requests]
    rows = [(index, context) for index, tokens in enumerate(choices) for context in tokens.contexts]
    inputs = runtime.encode([requests[index] for index, _ in rows])
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    contexts = [context for _, context in rows]
    logprobs = _next_token_logprobs(runtime, inputs, contexts)
    row_of = {row: number for number, row in enumerate(rows)}
    replies = []
    for index, (request, tokens) in enumerate(zip(requests, choices, strict=True)):
        row_logprobs = {context: logprobs[row_of[index, context]] for context in tokens.contexts}
        tokens_in = sum(int(lengths[row_of[index, context]]) for context in tokens.contexts)
        replies.append(_reply(request, tokens, row_logprobs, tokens_in))
    return replies


def _tokenise(runtime: Runtime, choices: Sequence[str]) -> ChoiceTokens:
    ids = {choice: runtime.tokenizer.encode(choice, add_special_tokens=False) for choice in choices}
    return tell_apart(ids, runtime.stop_ids[0])


def _reply(
    request: VlmRequest, choices: ChoiceTokens, logprobs: dict[Tokens, torch.Tensor], tokens_in: int
) -> VlmReply:
    probabilities = choice_probabilities(
        choices, lambda context, position, token: float(logprobs[context][position, token])
    )
    samples = [
        choose(probabilities, request.temperature, seeded_random(request.seed, sample))
        for sample in range(request.samples)
    ]
    cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=sum(len(choices.tokens[text]) for text in samples))
    return VlmReply(
        text=samples[0],
        cost=cost,
        samples=tuple(samples),
        probabilities=probabilities if request.probabilities else {},
    )


def _next_token_logprobs(runtime: Runtime, inputs: Any, contexts: Sequence[Tokens]) -> torch.Tensor:
    """(N, 1 + longest context, V) float32 log probabilities of the token after each position of N contexts."""
    import torch

    count = 1 + max(map(len, contexts))
    # The logits of all positions of a prompt would take gigabytes: most models make those of the last ones alone.
    keeps_logits = "logits_to_keep" in inspect.signature(runtime.model.forward).parameters
    options = {"logits_to_keep": count} if keeps_logits else {}
    inputs = runtime.to_device(_append_contexts(inputs, contexts))
    with torch.inference_mode():
        logits = runtime.model(**inputs, **options, use_cache=False).logits
    return torch.log_softmax(logits[:, -count:].float(), dim=-1).cpu()


def _append_contexts(inputs: Any, contexts: Sequence[Tokens]) -> Any:
    """Append N beginnings of replies to N prompts; shorter ones are padded on the right, where nothing sees it."""
    import torch

    longest = max(map(len, contexts))
    if not longest:
        return inputs
    padding = [longest - len(context) for context in contexts]
    tokens = torch.tensor([[*context, *[0] * pad] for context, pad in zip(contexts, padding, strict=True)])
    seen = torch.tensor(
        [[1] * len(context) + [0] * pad for context, pad in zip(contexts, padding, strict=True)]
    )
    added = {"input_ids": tokens, "attention_mask": seen}
    shape = inputs["input_ids"].shape
    for name, tensor in dict(inputs).items():
        if getattr(tensor, "shape", None) == shape:
            more = added.get(name, torch.zeros_like(tokens)).to(tensor.dtype)
            inputs[name] = torch.cat([tensor, more], dim=1)
    return inputs
