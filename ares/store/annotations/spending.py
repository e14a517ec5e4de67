"""What calls of models have cost: one document per process and model, beside the replies and written with them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from ares.annotation import Cost

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store.annotations.log import AnnotationStore

# Replies of models by the hash of their request; the costs are among them, so that one transaction writes both.
MODEL_REPLIES = "model_replies"
_PREFIX = "spent/"


def new_spending_key(model: str) -> str:
    """Key of the document with the cost of one process's calls of a model."""
    return f"{_PREFIX}{model}/{uuid.uuid4().hex}"


def spending_document(cost: Cost) -> Json:
    """The document of a cost."""
    return asdict(cost)


def read_spending(store: AnnotationStore) -> Mapping[str, Cost]:
    """What the calls of each model have cost in a workspace so far, failed calls included, by name of the model."""
    costs: dict[str, Cost] = {}
    for key, document in store.find_documents(MODEL_REPLIES, _PREFIX):
        if isinstance(document, dict):
            model = key.removeprefix(_PREFIX).rpartition("/")[0]
            costs[model] = costs.get(model, Cost()) + Cost(**document)
    return costs
