"""Replies that a model writes token by token: free text or JSON of a schema, the most probable or sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from annotators.models.base import VlmFailure, VlmReply, VlmRequest
from annotators.models.huggingface.runtime import Runtime
from annotators.models.huggingface.token_rules import RowRules, TokenRules, seeded_random
from ares.annotation import Cost
from ares.errors import ModelError


def generate_replies(runtime: Runtime, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
    """Replies to requests of equal length limit and number of samples.

    A reply that reaches the length limit is an error, not half an answer; of several samples it is left out.

    Raises:
        ModelError: A schema cannot be held.
    """
    samples = requests[0].samples
    limit = requests[0].max_tokens or runtime.max_new_tokens
    rules = [_rules(runtime, request, sample) for request in requests for sample in range(samples)]
    inputs = runtime.to_device(runtime.encode(requests))
    rows = _generate(runtime, inputs, rules, samples, limit)
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    return [
        _read_rows(runtime, rows[index * samples : (index + 1) * samples], int(length), limit)
        for index, length in enumerate(lengths)
    ]


def _rules(runtime: Runtime, request: VlmRequest, sample: int) -> RowRules:
    matcher = None if request.schema is None else runtime.grammar.matcher(request.schema)
    return RowRules(
        matcher=matcher, temperature=request.temperature, random=seeded_random(request.seed, sample)
    )


def _generate(
    runtime: Runtime, inputs: Any, rules: Sequence[RowRules], samples: int, limit: int
) -> list[list[int]]:
    """New tokens of each row."""
    import torch
    from transformers import LogitsProcessorList

    options: dict[str, Any] = {"do_sample": False}
    if samples > 1:
        # The rules leave one token to each row, so nothing is drawn here.
        options = {"do_sample": True, "num_return_sequences": samples, "temperature": 1.0, "top_k": 0}
    with torch.inference_mode():
        rows = runtime.model.generate(
            **inputs,
            **options,
            max_new_tokens=limit,
            logits_processor=LogitsProcessorList([TokenRules(rules, runtime.stop_ids)]),
        )
    width = int(inputs["input_ids"].shape[1])
    return [row[width:] for row in rows.tolist()]


def _read_rows(
    runtime: Runtime, rows: Sequence[Sequence[int]], tokens_in: int, limit: int
) -> VlmReply | VlmFailure:
    """The reply of a request from its samples."""
    replies = [_until_stop(row, runtime.stop_ids) for row in rows]
    lengths = [len(row) if ids is None else len(ids) + 1 for ids, row in zip(replies, rows, strict=True)]
    cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=sum(lengths))
    texts = [runtime.tokenizer.decode(ids, skip_special_tokens=True) for ids in replies if ids is not None]
    if texts:
        return VlmReply(text=texts[0], cost=cost, samples=tuple(texts))
    error = ModelError("reply was cut at its length limit", f"{limit} tokens from {runtime.name}")
    return VlmFailure(error, cost, is_unusable_reply=True)


def _until_stop(ids: Sequence[int], stop_ids: Sequence[int]) -> Sequence[int] | None:
    """The tokens before the end of a reply, or None where it has none."""
    stop = next((index for index, token in enumerate(ids) if token in stop_ids), None)
    return None if stop is None else ids[:stop]
