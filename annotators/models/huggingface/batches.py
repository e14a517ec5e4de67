"""Requests in batches that fit together; one that cannot be answered costs itself alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from annotators.models.base import VlmFailure, VlmReply, VlmRequest
from ares.errors import ModelError

Answer = VlmReply | VlmFailure
AnswerBatch = Callable[[Sequence[VlmRequest]], Sequence[Answer]]


def ask_in_batches(
    requests: Sequence[VlmRequest], answer: AnswerBatch, most_rows: int, name: str
) -> Sequence[Answer]:
    """One reply or failure per request, in order.

    A batch that does not fit into memory is halved, and one with a request that cannot be encoded as well.

    Args:
        requests: The requests.
        answer: Answers a batch.
        most_rows: Most replies of one batch.
        name: Name of the model for errors.
    """
    answers: dict[int, Answer] = {}
    for indices in _batches(requests, most_rows):
        batch = [requests[index] for index in indices]
        answers |= dict(zip(indices, _ask_batch(batch, answer, name), strict=True))
    return [answers[index] for index in range(len(requests))]


def _ask_batch(requests: Sequence[VlmRequest], answer: AnswerBatch, name: str) -> Sequence[Answer]:
    import torch

    try:
        return answer(requests)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        error = ModelError(
            "memory of the device is full", f"one request to {name}; show fewer or smaller frames"
        )
    except (ModelError, ValueError) as cause:
        error = cause if isinstance(cause, ModelError) else _refused(cause, name)
    if len(requests) == 1:
        return [VlmFailure(error)]
    middle = len(requests) // 2
    halves = (requests[:middle], requests[middle:])
    return [reply for half in halves for reply in _ask_batch(half, answer, name)]


def _refused(cause: ValueError, name: str) -> ModelError:
    return ModelError("model cannot take a request", f"{name}: {(str(cause).splitlines() or [''])[0][:300]}")


def _batches(requests: Sequence[VlmRequest], most_rows: int) -> Iterator[Sequence[int]]:
    """Indices of requests that can be answered together; those of one batch are of similar length."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        groups[_kind(request)].append(index)
    for indices in groups.values():
        ordered = sorted(indices, key=lambda index: _length(requests[index]))
        count = max(1, most_rows // requests[indices[0]].samples)
        for start in range(0, len(ordered), count):
            yield ordered[start : start + count]


def _kind(request: VlmRequest) -> object:
    if request.choices:
        return "choices", bool(request.images), request.clip
    return "text", bool(request.images), request.clip, request.max_tokens, request.samples


def _length(request: VlmRequest) -> tuple[int, int]:
    return sum(image.size for image in request.images), len(request.prompt)
