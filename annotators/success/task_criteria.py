"""The criteria of each task, asked for once and stored."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from ares.annotation import Cost, short_hash
from ares.errors import ModelError
from ares_annotators.models import Vlm, VlmFailure
from ares_annotators.prompting import read_json_reply
from ares_annotators.success.judge_questions import (
    CriteriaReply,
    build_criteria_request,
    hash_success_prompts,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


_COLLECTION = "success_criteria"


class TaskCriteria:
    """Criteria by task; those of a task are asked for once, also where several works of it run at the same time.

    Args:
        vlm: The model that writes them.
        stores: Stores of the workspace.
    """

    def __init__(self, vlm: Vlm, stores: Stores) -> None:
        self._vlm, self._annotations = vlm, stores.annotations
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def read(self, task: str, first_frame: NDArray[np.uint8]) -> tuple[list[str] | ModelError, Cost]:
        """Criteria of a task, or why there are none, and what was paid for them now."""
        key = short_hash([self._vlm.name, hash_success_prompts(), task])
        with self._lock:
            lock = self._locks[key]
        with lock:
            stored = self._annotations.get_document(_COLLECTION, key)
            if isinstance(stored, dict):
                return [str(text) for text in stored["criteria"]], Cost()
            return self._ask(task, key, first_frame)

    def _ask(
        self, task: str, key: str, first_frame: NDArray[np.uint8]
    ) -> tuple[list[str] | ModelError, Cost]:
        (reply,) = self._vlm.ask([build_criteria_request(task, first_frame)])
        if isinstance(reply, VlmFailure):
            return reply.error, reply.cost
        parsed = read_json_reply(CriteriaReply, reply.text)
        if isinstance(parsed, str):
            error = ModelError(
                "criteria of the task cannot be read", f"{self._vlm.name} replied {reply.text[:200]!r}"
            )
            return error, reply.paid
        criteria = list(parsed.criteria)
        self._annotations.put_documents(_COLLECTION, {key: {"task": task, "criteria": [*criteria]}})
        return criteria, reply.paid
