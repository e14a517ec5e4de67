"""Which software and which model stand behind the address of a server, by its list of models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from annotators.models.remote_check import get_json, model_entries
from ares.annotation import short_hash
from ares.episode import Json

if TYPE_CHECKING:
    from ares.store import Stores

_COLLECTION = "served_models"
# What servers say of themselves in `owned_by`, and the name of the dialect.
_SOFTWARE = {"vllm": "vllm", "sglang": "sglang"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as its server describes it.

    Attributes:
        software: "vllm", "sglang", or another name, such as that of a provider; "" when it does not say.
        root: Folder or hub id that the server loaded it from, or "".
    """

    software: str = ""
    root: str = ""

    def to_settings(self) -> dict[str, Json]:
        """What the maker of annotations says of the server."""
        known: dict[str, Json] = {"server": self.software, "served_from": self.root}
        return {name: value for name, value in known.items() if value}


def describe_served_model(url: str, model: str, key: str) -> ServedModel:
    """Ask a server for its models; a server without such a list is described by nothing."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        document = get_json(f"{url.rstrip('/')}/models", headers)
    except (HTTPError, OSError, ValueError):
        return ServedModel()
    entry = next((entry for entry in model_entries(document) if entry.get("id") == model), {})
    owner, root = str(entry.get("owned_by") or ""), str(entry.get("root") or "")
    return ServedModel(software=_SOFTWARE.get(owner.lower(), owner), root="" if root == model else root)


def remember_served_model(stores: Stores, spec: str, served: ServedModel) -> None:
    """Store what a server says of a model; estimates, which ask no server, read it."""
    if recall_served_model(stores, spec) != served:
        stores.annotations.put_documents(_COLLECTION, {short_hash(spec): asdict(served)})


def recall_served_model(stores: Stores, spec: str) -> ServedModel:
    """What a server said of a model when it was asked last; nothing where it never was."""
    document = stores.annotations.get_document(_COLLECTION, short_hash(spec))
    return ServedModel(**document) if isinstance(document, dict) else ServedModel()
