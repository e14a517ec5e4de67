"""Lists the models that the settings name: how large they are, and where they can be had."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ares.io import read_server_address
from ares.jobs import WorkerNeeds
from ares_annotators.models.model_families import find_family, find_shared_lineage
from ares_annotators.models.model_files import ModelFiles, find_model_in_folder, find_model_in_hub_cache
from ares_annotators.models.model_info import MEMORY_FACTOR, find_known_model, memory_bytes, open_clip_hub_id

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.settings import Settings


_TIMEOUT_SECONDS = 5.0


class _RefusingRedirects(HTTPRedirectHandler):
    """Leaves a redirect unanswered, which `urlopen` then raises as an HTTPError."""

    def redirect_request(self, *_: object) -> None:
        """None: no other address gets the headers of the request."""


def get_json(url: str, headers: dict[str, str]) -> Any:
    """The JSON document at an address.

    Args:
        url: The address.
        headers: Sent with the request. With any, no redirect is followed: they may hold a key.

    Raises:
        HTTPError: The server refuses, or redirects a request with headers.
        OSError: It cannot be reached, or does not answer as HTTP.
        ValueError: The address cannot be read, or the answer is no JSON or nested too deeply.
    """
    read_server_address(url)
    opener = build_opener(_RefusingRedirects) if headers else build_opener()
    try:
        with opener.open(Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as response:
            return json.loads(response.read(2**20))
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    except HTTPException as error:
        raise OSError(f"no answer of HTTP: {error}") from None


def list_served_models(document: Any) -> list[dict[str, Any]]:
    entries = document.get("data") if isinstance(document, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


Role = Literal["embed", "caption", "judge"]
# Where a model is: on this machine, on the hub, behind a server, part of ARES, or nowhere.
ModelState = Literal["here", "to be fetched", "server", "built in", "missing", "unknown"]
# A process with torch and transformers, without weights.
_PROCESS_BYTES = 700_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model that the settings name.

    Attributes:
        role: What it is for.
        spec: Its spec, as in the settings.
        state: Where it is.
        family: Its family ("qwen"), or "".
        language_model: Release of its language model, or "" when not known or without one.
        parameters: Number of weights, or None when not known.
        disk_bytes: Size of its weights on disk, or None when not known.
        memory_bytes: Memory of a GPU that it needs with 16-bit weights, or None when not known.
        licence: Licence of the weights, or "" when not known.
        location: Folder, hub id or URL.
    """

    role: Role
    spec: str
    state: ModelState
    family: str = ""
    language_model: str = ""
    parameters: int | None = None
    disk_bytes: int | None = None
    memory_bytes: int | None = None
    licence: str = ""
    location: str = ""

    def to_json(self) -> dict[str, Json]:
        """One entry of `ares models --json`."""
        return {name: getattr(self, name) for name in self.__slots__}


def describe_models(settings: Settings) -> list[ModelDescription]:
    """The models of `embed`, `caption` and `grade` that settings name; nothing is loaded, nobody is asked."""
    specs: tuple[tuple[Role, str], ...] = (
        ("embed", settings.embed_model),
        ("caption", settings.caption_model),
        ("judge", settings.judge_model),
    )
    return [_with_user_table(describe_model(role, spec), settings.model_families) for role, spec in specs]


def describe_model(role: Role, spec: str) -> ModelDescription:
    """The model of one spec, by its files on this machine and by its name."""
    kind, _, rest = spec.partition(":")
    if kind in ("stub", "hash") and rest:
        return ModelDescription(role=role, spec=spec, state="built in")
    if kind == "openai" and "@" in rest:
        name, _, url = rest.rpartition("@")
        family = find_family(name)
        return ModelDescription(
            role=role,
            spec=spec,
            state="server",
            family=family.name,
            language_model=family.language_model,
            location=url,
        )
    if kind == "clip" or (role == "embed" and kind != "hf"):
        return _describe_clip(role, spec)
    if kind == "hf" and rest:
        folder = Path(rest).expanduser()
        if folder.is_dir():
            return _describe_folder(role, spec, folder)
        return _describe_hub_model(role, spec, rest)
    return ModelDescription(role=role, spec=spec, state="unknown")


def estimate_worker_resources(role: Role, spec: str) -> WorkerNeeds:
    """What a worker with a model takes: memory for its weights with 32 bits, as a CPU has them, and a GPU."""
    model = describe_model(role, spec)
    if model.state in ("server", "built in"):
        return WorkerNeeds()
    weight_bytes = 4 * model.parameters if model.parameters else model.disk_bytes or 0
    return WorkerNeeds(memory_bytes=_PROCESS_BYTES + round(weight_bytes * MEMORY_FACTOR), gpus=1.0)


def shared_language_model(models: list[ModelDescription]) -> str:
    """The family of language models that the captioner and the judge have in common, or ""."""
    by_role = {model.role: model.language_model for model in models}
    return find_shared_lineage([by_role.get("caption", ""), by_role.get("judge", "")])


def _with_user_table(model: ModelDescription, file: str) -> ModelDescription:
    """A model with the family and the language model that a file of the user says."""
    if not file or model.family == "clip":
        return model
    name = model.spec.partition(":")[2].rpartition("@")[0] if model.state == "server" else model.location
    family = find_family(name, file)
    return replace(model, family=family.name, language_model=family.language_model or model.language_model)


def _describe_clip(role: Role, spec: str) -> ModelDescription:
    name = spec.removeprefix("clip:")
    kind, _, rest = name.partition(":")
    if kind == "local-dir":
        model = _describe_folder(role, spec, Path(rest).expanduser())
    elif kind == "hf-hub" or open_clip_hub_id(name):
        model = _describe_hub_model(role, spec, rest if kind == "hf-hub" else open_clip_hub_id(name))
    else:
        model = ModelDescription(role=role, spec=spec, state="unknown")
    # Its weights are loaded with 32 bits, and it has no language model that could judge.
    needed = None if model.disk_bytes is None else round(model.disk_bytes * MEMORY_FACTOR)
    return replace(model, family="clip", language_model="", memory_bytes=needed)


def _describe_folder(role: Role, spec: str, folder: Path) -> ModelDescription:
    files = find_model_in_folder(folder)
    if files is None:
        return ModelDescription(role=role, spec=spec, state="missing", location=str(folder))
    return _describe_files(role, spec, files, folder.resolve().name)


def _describe_hub_model(role: Role, spec: str, hub_id: str) -> ModelDescription:
    files = find_model_in_hub_cache(hub_id)
    if files is not None:
        return _describe_files(role, spec, files, hub_id)
    family, known = find_family(hub_id), find_known_model(hub_id)
    model = ModelDescription(
        role=role,
        spec=spec,
        state="to be fetched",
        family=family.name,
        language_model=family.language_model,
        location=hub_id,
    )
    if known is None:
        return model
    parameters = round(known.parameters)
    return replace(
        model,
        parameters=parameters,
        disk_bytes=round(known.disk_gb * 1e9),
        memory_bytes=memory_bytes(parameters),
        licence=known.licence,
    )


def _describe_files(role: Role, spec: str, files: ModelFiles, name: str) -> ModelDescription:
    family, known = find_family(name), find_known_model(name)
    parameters = files.count_parameters()
    language_model = files.language_model()
    return ModelDescription(
        role=role,
        spec=spec,
        state="here",
        family=family.name,
        language_model=family.language_model or (find_family(language_model).name if language_model else ""),
        parameters=parameters,
        disk_bytes=files.nbytes,
        memory_bytes=memory_bytes(parameters) if parameters else round(files.nbytes * MEMORY_FACTOR),
        licence=files.licence() or (known.licence if known else ""),
        location=str(files.folder),
    )
