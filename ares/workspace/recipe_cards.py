"""Recipe cards: what another machine needs to make a set and its export again, described and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import AfterValidator, ConfigDict, Field

from ares.annotation import short_hash
from ares.console import visible
from ares.contract import DatasetKey, read_contracts
from ares.curation import (
    EXPORTS,
    CurationSet,
    SetLock,
    Sets,
    SplitRow,
    carried_split,
    read_lock,
)
from ares.errors import AresError, RequestError, shorten
from ares.export import RetimeMode, TaskSource
from ares.input import read_json
from ares.io import existing_path, expanded_path, open_file, parse_path, relative_path, walk_folders
from ares.jobs import Progress
from ares.store import batched, ids_filter
from ares.workspace.label_lines import FileName, Form, LabelsFile, Word, write_labels

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_CARD_VERSION: Literal[1] = 1
_TIMES_FILE, PLAN_FILE, _MANIFEST_FILE = "manifest.times.json", "plan.yaml", "manifest.json"
# Columns of the texts that people correct.
TEXTS = ("instruction", "caption")
# Members that are read at once.
_PAGE = 10_000


def _check_path(path: str) -> str:
    """Refuse a path that leads out of the folder that it is below."""
    if "\0" in path or {"..", ".", ""} & set(path.split("/")):
        raise ValueError("a path leads out of its folder")
    return path


_Path = Annotated[str, Field(max_length=4_096), AfterValidator(_check_path)]
_Text = Annotated[str, Field(max_length=20_000)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class CardFile(Form):
    """One file: its path below its folder, with "/", its size in bytes, and its SHA-256."""

    path: _Path
    bytes: _Count
    sha256: _Hash


class CardOptions(Form):
    """What a dataset was read with: rate, pattern of cameras, and content of the spec."""

    rate_hz: Annotated[float, Field(gt=0, le=1e6)] | None = None
    cameras: _Text = ""
    spec: dict[str, Any] | None = None


class CardSource(Form):
    """A dataset that members of the set are of.

    Attributes:
        dataset: Name that its episodes are stored under.
        format: Its format.
        version: Its version, or "".
        folder: Name of its folder.
        file: Name of the file in that folder that alone is the dataset, or "".
        episodes: How many members are of it.
        options: What it was read with: "rate_hz", "cameras", "spec".
        licences: What it states of its licence.
        files: Its files; none where it was not there when the card was written.
    """

    dataset: Word
    format: Word
    version: Annotated[str, Field(max_length=200)]
    folder: FileName
    file: FileName
    episodes: _Count
    options: CardOptions
    licences: list[_Text]
    files: list[CardFile]

    @property
    def key(self) -> DatasetKey:
        """The dataset."""
        return DatasetKey(self.format, self.dataset, self.version)


class _AnyForm(Form):
    """A part in which an earlier ARES has written fields that this one does not know."""

    model_config = ConfigDict(extra="allow")


class CardTrim(_AnyForm):
    """Fields of an `ares.export.TrimRequest`."""

    idle_seconds: float | None = None
    interventions: _Text = ""


class CardExportOptions(_AnyForm):
    """Options of an `ares.export.ExportRequest`, those that were chosen."""

    format: Word = "lerobot"
    task: TaskSource = "instruction"
    refuted: bool = False
    fps: Annotated[float, Field(gt=0, le=1e6)] | None = None
    retime: RetimeMode = "nearest"
    convert: list[_Text] = Field(default_factory=list)
    signals: list[_Text] | None = None
    drop_cameras: list[_Text] = Field(default_factory=list)
    strict: bool = False
    segments: list[_Text] = Field(default_factory=list)
    trim: CardTrim | None = None
    weights: _Text | list[_Text] = ""


class CardExport(_AnyForm):
    """An export of the set: what was asked for, the merge plan or "", and the SHA-256 of each of its files.

    Attributes:
        options: Options of the export.
        plan: Text of the merge plan.
        files: SHA-256 by path.
    """

    options: CardExportOptions
    plan: Annotated[str, Field(max_length=2**22)]
    files: dict[str, _Hash]

    def check(self, where: str) -> None:
        """Raises RequestError for an export with what only an earlier ARES could write."""
        parts = [self, self.options, *filter(None, [self.options.trim])]
        extra = {name: value for part in parts for name, value in (part.model_extra or {}).items() if value}
        if isinstance(self.options.weights, list) and len(self.options.weights) > 1:
            extra["weights"] = self.options.weights
        if extra:
            detail = ", ".join(f"{name} {value}" for name, value in extra.items())
            remedy = "rebuild the set without --export, or export it again and lock that"
            raise RequestError(
                "the export was made by an earlier ARES in a way that is gone",
                f"{where}: {shorten(visible(detail))}; {remedy}",
            )


class RecipeCard(SetLock):
    """A lock file by which the set, and its export, are made again.

    Attributes:
        card: Version of the layout.
        ares: Version of ARES that wrote it.
        sources: Where its members come from.
        labels: The labels.
        export: The export that a rebuild writes again, or None.
        split: The table of its split, or of the split that it is a part of.
        texts: Lines of the id of each member and a hash of its instruction and its caption; none in older cards.
    """

    card: Literal[1]
    ares: Annotated[str, Field(max_length=200)]
    sources: Annotated[list[CardSource], Field(min_length=1)]
    labels: LabelsFile
    export: CardExport | None
    split: list[dict[str, Any]] = Field(default_factory=list)
    texts: list[Annotated[str, Field(pattern="^[0-9a-f]{16} [0-9a-f]{16}$")]] = Field(default_factory=list)

    def split_rows(self) -> list[SplitRow]:
        """The rows of the table of the split. Raises as `SplitRow.from_json`."""
        return list(map(SplitRow.from_json, self.split))


def write_recipe_card(
    stores: Stores, selection: CurationSet, path: Path, export: str = "", *, progress: Progress | None = None
) -> RecipeCard:
    """Write a set as a card, and the labels of its datasets to a file beside it.

    A source that is not where it was read is in the card without its files: that proves the set, and rebuilds none.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        path: The card, a JSON file; the labels are `NAME.labels.jsonl`.
        export: Folder of the export to be made again; "" for the newest one that is still there.
        progress: Advanced by the files of the sources, which are all read.

    Returns:
        The card, without the set.

    Raises:
        RequestError: The folder is no export of this set.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    described = _describe_export(stores, selection, export)
    counts = _count_members(stores, selection)
    sources = [_describe_source(stores, key, count, progress) for key, count in sorted(counts.items())]
    labels_path = path.with_name(f"{path.name.removesuffix('.json')}.labels.jsonl")
    labels = write_labels(stores, list(counts), labels_path)
    header: dict[str, Any] = selection.to_json()
    card = RecipeCard(
        **header,
        ids=[],
        card=_CARD_VERSION,
        ares=version("ares-curation"),
        sources=sources,
        labels=labels,
        export=described,
        split=[dict(row.to_json()) for row in carried_split(stores.annotations, selection)],
    )
    streamed = {*SetLock.model_fields, "texts", *(() if card.split else ("split",))}
    fields = card.model_dump(mode="json", exclude=streamed)
    ids = Sets(stores.annotations).ids(selection)
    fields["texts"] = (f"{id} {digest}" for id, digest in hash_texts(stores, ids))
    Sets(stores.annotations).write_lock(selection, path, fields)
    return card


def hash_texts(stores: Stores, episode_ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The ids, which are sorted, each with a hash of the texts that the episode is shown and exported with."""
    columns = [name for name in TEXTS if name in stores.tables.episodes.columns()]
    for ids in batched(episode_ids, _PAGE):
        rows = stores.tables.episodes.read_columns(["episode_id", *columns], ids_filter(ids)).to_pylist()
        for row in sorted(rows, key=lambda row: str(row["episode_id"])):
            yield row["episode_id"], short_hash([row.get(name) or "" for name in TEXTS])


def read_recipe_card(path: Path) -> tuple[RecipeCard, CurationSet]:
    """A card with its set. Raises RequestError for any other file."""
    card, selection = read_lock(path, RecipeCard)
    try:
        card.split_rows()
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError("the lock file cannot be read", f"{path}: split: {error!r}") from None
    return card, selection


def _count_members(stores: Stores, selection: CurationSet) -> dict[DatasetKey, int]:
    """Number of members by dataset."""
    counts: dict[DatasetKey, int] = {}
    for ids in batched(Sets(stores.annotations).ids(selection), _PAGE):
        rows = stores.tables.episodes.read_columns(["format", "dataset", "version"], ids_filter(ids))
        for row in rows.to_pylist():
            key = DatasetKey(row["format"], row["dataset"], row["version"])
            counts[key] = counts.get(key, 0) + 1
    return counts


def _describe_source(stores: Stores, key: DatasetKey, episodes: int, progress: Progress | None) -> CardSource:
    """A dataset with the hash of each file; without files where its folder is not known, or not there."""
    facts = read_contracts(stores.annotations, key).source
    folder = _reachable_path(str(facts.get("folder", "")))
    is_here = folder is not None
    folder = folder or Path()
    file = folder.name if folder.is_file() else ""
    root = folder.parent if file else folder
    paths = [root / file] if file else _files_below(root, stores.location) if is_here else []
    options = CardOptions.model_validate(facts.get("options") or {})
    licences = cast("list[dict[str, str]]", facts.get("licences", []))
    if file:
        paths += [root / fact["origin"] for fact in licences if (root / fact["origin"]).is_file()]
    return CardSource(
        dataset=key.dataset,
        format=key.format,
        version=key.version,
        folder=root.name if is_here else "",
        file=file,
        episodes=episodes,
        options=options,
        licences=[fact["value"] for fact in licences],
        files=list(hash_files(root, paths, progress)),
    )


def _reachable_path(path: str) -> Path | None:
    """A path or URL that exists; None where it does not, or nothing reaches it."""
    try:
        return existing_path(path) if path else None
    except AresError:
        return None


def _files_below(root: Path, workspace: str) -> list[Path]:
    """The files of a dataset, without hidden ones and those of a workspace that lies in it."""
    paths: list[Path] = []
    for folder, subfolders, names in walk_folders(root):
        subfolders[:] = [
            name for name in subfolders if not name.startswith(".") and str(folder / name) != workspace
        ]
        paths += [folder / name for name in names if not name.startswith(".")]
    return sorted(paths)


def hash_files(root: Path, paths: Iterable[Path], progress: Progress | None) -> Iterator[CardFile]:
    for path in paths:
        with open_file(str(path), long_reads=True) as file:
            digest = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
            size = file.tell()
        yield CardFile(path=relative_path(path, root), bytes=size, sha256=digest)
        if progress:
            progress.advance(1)


def _describe_export(stores: Stores, selection: CurationSet, folder: str) -> CardExport | None:
    """The export in a folder, or the newest one of the set that is still there; None without any."""
    path = parse_path(expanded_path(folder))
    if not folder:
        documents = (
            cast("dict[str, Json]", document)
            for _, document in stores.annotations.find_documents(EXPORTS, f"{selection.frozen_key}/")
        )
        newest = sorted((str(document["created"]), str(document["path"])) for document in documents)
        known = [Path(path) for _, path in newest if (Path(path) / _MANIFEST_FILE).is_file()]
        if not known:
            return None
        path = known[-1]
    try:
        manifest = read_json(str(path / _MANIFEST_FILE))
        name, ids_hash, options = (
            manifest["set"]["name"],
            manifest["set"]["ids_hash"],
            {**manifest["export"], "appended": manifest.get("appended")},
        )
        has_plan = options.pop("plan", None) is not None
        plan = (path / PLAN_FILE).read_text(encoding="utf-8") if has_plan else ""
        export = CardExport(
            options=CardExportOptions.model_validate_json(json.dumps(options)),
            plan=plan,
            files=hash_export(path),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError("this is no export that can be made again", f"{path}: {error!r}"[:300]) from None
    if ids_hash != selection.ids_hash:
        raise RequestError("the export is of another set", f"{path} has {name}, with other members")
    export.check(str(path))
    return export


def hash_export(path: Path) -> dict[str, str]:
    """SHA-256 by the path of each file of an export, but that which says when it was made."""
    files = hash_files(path, _files_below(path, ""), None)
    return {file.path: file.sha256 for file in files if file.path != _TIMES_FILE}
