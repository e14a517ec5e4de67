"""Recipe cards: what another machine needs to make a set and its export again, and what differs when it does not."""

from __future__ import annotations

import hashlib
import json
import shlex
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, ValidationError

from ares.console import count_of, visible
from ares.contract import DatasetKey, read_contracts
from ares.curation import (
    EXPORTS,
    LOCK_FIELDS,
    CurationSet,
    Sets,
    SplitRow,
    carried_name,
    carried_split,
    parse_lock,
    read_lock_document,
    write_split_rows,
)
from ares.errors import AresError, RequestError, first_fault, shorten
from ares.export import SPLIT_FILE, RetimeMode, TaskSource
from ares.input import read_json
from ares.io import existing_path, open_file, relative_path, walk_folders
from ares.jobs import IngestRequest, Progress
from ares.store import batched, file_origin, ids_filter
from ares.workspace.carried_labels import StagedLabels, carry_labels, stage_labels
from ares.workspace.label_lines import Form, LabelsFile, Word, write_labels
from ares.workspace.operations import ingest_datasets, plan_ingest
from ares.workspace.requested_exports import export_with_progress, make_export_request

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores
    from ares.workspace.requested_exports import ExportOptions


_CARD_VERSION: Literal[1] = 1
_TIMES_FILE, _PLAN_FILE, _MANIFEST_FILE = "manifest.times.json", "plan.yaml", "manifest.json"
# Members that are read at once; how deep below a folder sources are looked for, and in how many folders.
_PAGE, _DEEPEST, _MOST_FOLDERS = 10_000, 6, 20_000
# Keys of a spec that name other files; what these say travels with the labels.
_FILES_OF_SPEC = ("spans", "span_unit", "subtask_names", "kinematics")


def _check_path(path: str) -> str:
    """Refuse a path that leads out of the folder that it is below."""
    if "\0" in path or {"..", ".", ""} & set(path.split("/")):
        raise ValueError("a path leads out of its folder")
    return path


def _check_file_name(name: str) -> str:
    if "/" in name or "\0" in name or name in (".", ".."):
        raise ValueError("a name of a file or folder is a path")
    return name


_Path = Annotated[str, Field(max_length=4_096), AfterValidator(_check_path)]
_FileName = Annotated[str, Field(max_length=255), AfterValidator(_check_file_name)]
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
    folder: _FileName
    file: _FileName
    episodes: _Count
    options: CardOptions
    licences: tuple[_Text, ...]
    files: tuple[CardFile, ...]

    @property
    def key(self) -> DatasetKey:
        """The dataset."""
        return DatasetKey(self.format, self.dataset, self.version)


class CardTrim(Form):
    """Fields of an `ares.export.TrimRequest`."""

    idle_seconds: float | None = None
    drop_segments: _Text = ""
    keep_spans: _Text = ""


class CardExportOptions(Form):
    """Options of an `ares.export.ExportRequest`, those that were chosen."""

    format: Word = "lerobot"
    task: TaskSource = "instruction"
    fps: Annotated[float, Field(gt=0, le=1e6)] | None = None
    retime: RetimeMode = "nearest"
    convert: tuple[_Text, ...] = ()
    strict: bool = False
    segments: tuple[_Text, ...] = ()
    trim: CardTrim | None = None
    weights: _Text | tuple[_Text, ...] = ""
    progress: _Text = ""
    files_hash: _Text = ""

    @property
    def gone(self) -> tuple[str, ...]:
        """What only an earlier ARES could write: several weights, rules of weights, and dropped segments."""
        weights = (self.weights,) if isinstance(self.weights, str) else self.weights
        rules = [text for text in weights if len(weights) > 1 or " " in text.strip()]
        return (*rules, *((self.trim.drop_segments,) if self.trim and self.trim.drop_segments else ()))


class CardExport(Form):
    """An export of the set: what was asked for, the merge plan or "", and the SHA-256 of each of its files.

    Attributes:
        options: Options of the export.
        plan: Text of the merge plan.
        files: SHA-256 by path.
        appended: Sets that an earlier ARES appended to it, in cards of that time.
    """

    options: CardExportOptions
    plan: Annotated[str, Field(max_length=2**22)]
    files: dict[str, _Hash]
    appended: Annotated[tuple[dict[str, Any], ...], Field(exclude=True)] = ()


class CardSide(Form):
    """A row of the table of a split, see `ares.curation.SplitRow`."""

    content_hash: Word
    side: Word
    rule: Annotated[tuple[Word, ...], Field(max_length=100)]
    seed: _Count
    episode_id: Word


class RecipeCard(Form):
    """What a card has beside the set itself, which `parse_lock` reads.

    Attributes:
        card: Version of the layout.
        ares: Version of ARES that wrote it.
        sources: Where its members come from.
        makers: What made the labels, by maker_id: annotator, version and model.
        labels: The labels.
        export: The export that a rebuild writes again, or None.
        split: The table of its split, or of the split that it is a part of.
    """

    card: Literal[1]
    ares: Annotated[str, Field(max_length=200)]
    sources: tuple[CardSource, ...]
    makers: dict[str, _Text]
    labels: LabelsFile
    export: CardExport | None
    split: tuple[CardSide, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildDifference:
    """One thing that is not as the card says.

    Attributes:
        kind: "source", "file", "episode", "maker", "set" or "export".
        name: What it is: a file below its source, an episode with its dataset and key, a producer.
        expected: What the card has.
        actual: What is here; "missing" where nothing is.
    """

    kind: Literal["source", "file", "episode", "maker", "set", "export"]
    name: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.actual}, the card has {self.expected}"

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What a rebuild made.

    Attributes:
        set: Label of the set; "" where it was not made.
        episodes: Number of its episodes.
        annotations: Labels that came with the card.
        uncounted: Answers of the card that do not count, by person.
        path: Folder of the export, or "".
        same_files: Files of the export that are byte for byte those of the card.
        versions: Version of ARES of the card, and the one here.
        differences: What is not as the card says; none where all is.
    """

    set: str = ""
    episodes: int = 0
    annotations: int = 0
    uncounted: Mapping[str, int] = field(default_factory=dict)
    path: str = ""
    same_files: int = 0
    versions: tuple[str, str]
    differences: tuple[RebuildDifference, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The document of `ares set rebuild --json`."""
        fields = asdict(self)
        card, here = fields.pop("versions")
        return {**fields, "ares": {"card": card, "here": here}}


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
    labels, maker_ids = write_labels(stores, list(counts), labels_path)
    producers = stores.annotations.producers()
    card = RecipeCard(
        card=_CARD_VERSION,
        ares=version("ares-curation"),
        sources=tuple(sources),
        makers={
            id: " ".join(filter(None, (producers[id].annotator, producers[id].version, producers[id].model)))
            for id in sorted(maker_ids)
        },
        labels=labels,
        export=described,
        split=tuple(
            CardSide.model_validate_json(json.dumps(row.to_json()))
            for row in carried_split(stores.annotations, selection)
        ),
    )
    # An earlier ARES reads the card of a set without a split.
    fields = card.model_dump(mode="json", exclude=set() if card.split else {"split"})
    Sets(stores.annotations).write_lock(selection, path, fields)
    return card


def read_recipe_card(path: Path) -> tuple[RecipeCard, CurationSet, list[str]]:
    """Read a card with its set and the members. Raises RequestError for any other file, with the remedy for a lock."""
    document = read_lock_document(path)
    selection, members = parse_lock(document, path)
    if "card" not in document:
        raise RequestError(
            "this lock proves a set and has no recipe",
            f"{path} is of an earlier ARES; write it again with `ares set lock {shlex.quote(selection.label)} FILE`",
        )
    fields = {name: value for name, value in document.items() if name not in LOCK_FIELDS}
    try:
        card = RecipeCard.model_validate_json(json.dumps(fields))
        if not (card.labels.file and _check_file_name(card.labels.file) and card.sources):
            raise ValueError("a card names its labels and its sources")
    except ValidationError as error:
        raise RequestError(
            "the card is not valid", shorten(visible(f"{path}: {first_fault(error)}"))
        ) from None
    except ValueError as error:
        raise RequestError("the card is not valid", f"{path}: {error}") from None
    return card, selection, members


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
        licences=tuple(fact["value"] for fact in licences),
        files=tuple(_hash_files(root, paths, progress)),
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


def _hash_files(root: Path, paths: Iterable[Path], progress: Progress | None) -> Iterator[CardFile]:
    for path in paths:
        with open_file(str(path), long_reads=True) as file:
            digest = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
            size = file.tell()
        yield CardFile(path=relative_path(path, root), bytes=size, sha256=digest)
        if progress:
            progress.advance(1)


def _describe_export(stores: Stores, selection: CurationSet, folder: str) -> CardExport | None:
    """The export in a folder, or the newest one of the set that is still there; None without any."""
    path = Path(folder).expanduser()
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
        ids_hash, options = manifest["set"]["ids_hash"], dict(manifest["export"])
        has_plan = options.pop("plan", None) is not None
        selected_options = CardExportOptions.model_validate_json(json.dumps(options))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError("this is no export that can be made again", f"{path}: {error!r}"[:300]) from None
    if ids_hash != selection.ids_hash:
        raise RequestError(
            "the export is of another set", f"{path} has {manifest['set']['name']}, with other members"
        )
    if manifest.get("appended"):
        raise _appended_error(path)
    plan = (path / _PLAN_FILE).read_text(encoding="utf-8") if has_plan else ""
    return CardExport(options=selected_options, plan=plan, files=_hash_export(path))


def _appended_error(path: Path) -> RequestError:
    """What is said of an export that an earlier ARES appended sets to, which nothing makes again."""
    remedy = "where the sets are, join them with `ares set union`, export that into a new folder, and lock it"
    return RequestError("an earlier ARES appended sets to the export", f"{path}; {remedy}")


def _hash_export(path: Path) -> dict[str, str]:
    """SHA-256 by the path of each file of an export, but that which says when it was made."""
    files = _hash_files(path, _files_below(path, ""), None)
    return {file.path: file.sha256 for file in files if file.path != _TIMES_FILE}


def rebuild_set(
    stores: Stores,
    card_path: Path,
    folders: Sequence[Path],
    export: str = "",
    *,
    trust_answers_of: Collection[str] = (),
    quiet: bool = False,
) -> RebuildReport:
    """Make the set of a card, and its export, from sources that lie anywhere.

    The card and its labels are checked as a whole, and sources are compared file by file, before anything is stored;
    where a file differs, that is the answer and nothing is made.

    Args:
        stores: Stores of a workspace without episodes.
        card_path: The card; its labels lie beside it.
        folders: Folders at or below which the sources are looked for.
        export: Folder to write the export to, or "".
        trust_answers_of: Names of the people whose answers in the card count.
        quiet: Show no progress.

    Raises:
        RequestError: The card or its labels are not as `write_recipe_card` writes them, the workspace has episodes, the
            card has no export, or no answers of somebody who is to be trusted.
    """
    card, selection, members = read_recipe_card(card_path)
    labels_path = card_path.with_name(card.labels.file)
    _check_labels(labels_path, card.labels)
    if export and card.export is None:
        raise RequestError(
            "the card has no export",
            f"`ares set lock {shlex.quote(selection.label)} FILE --export FOLDER` adds one",
        )
    if export and card.export and card.export.appended:
        raise _appended_error(card_path)
    if export and card.export and card.export.options.gone:
        remedy = "rebuild the set without --export, and export it with a table of weights or of spans to keep"
        detail = shorten(visible(f"{', '.join(card.export.options.gone)}; {remedy}"))
        raise RequestError("the export of the card has options of an earlier ARES", detail)
    if stores.tables.episodes.count():
        raise RequestError("the workspace has episodes already", f"{stores.location}; name a new one with -w")
    _check_export(card.export)
    versions = (card.ares, version("ares-curation"))
    with stage_labels(stores, labels_path, file_origin("card", card_path), trust_answers_of) as labels:
        if labels.annotations != card.labels.annotations:
            has = f"has {count_of(labels.annotations, 'annotation')}, the card says {card.labels.annotations}"
            raise RequestError("the labels are not those of the card", f"{labels_path} {has}")
        roots, differences = _locate_sources(card.sources, folders)
        if differences:
            return RebuildReport(versions=versions, differences=tuple(differences))
        _ingest_sources(stores, card.sources, roots, quiet)
        carried = carry_labels(stores, labels, trust_answers_of, job="ares set rebuild", rebuilds=True)
        report = RebuildReport(
            annotations=carried.annotations, versions=versions, uncounted=carried.uncounted
        )
        differences += _compare_producers(stores, card)
        differences += _compare_episodes(stores, members, labels)
    if any(difference.kind == "episode" for difference in differences):
        return replace(report, differences=tuple(differences))
    with stores.annotations.atomic():
        frozen = Sets(stores.annotations).add_locked(selection, members)
        rows = [SplitRow(by=row.rule, **row.model_dump(exclude={"rule"})) for row in card.split]
        write_split_rows(stores.annotations, carried_name(selection), rows)
    report = replace(report, set=frozen.label, episodes=frozen.episodes, differences=tuple(differences))
    if not (export and card.export):
        return report
    return _export_again(stores, frozen, card.export, export, report, quiet=quiet)


def _check_export(card: CardExport | None) -> None:
    """Raises RequestError for an export that cannot be made again."""
    from ares.export import read_merge_plan
    from ares.registry import exporters

    if card is None:
        return
    exporters.get(card.options.format)
    if not card.options.gone:
        _export_options(card.options)
    if card.plan:
        with tempfile.TemporaryDirectory(prefix="ares-rebuild-") as folder:
            path = Path(folder) / _PLAN_FILE
            path.write_text(card.plan, encoding="utf-8")
            read_merge_plan(path)


def _export_options(options: CardExportOptions) -> dict[str, Any]:
    """The options of an export as `WorkspaceJobs.export` takes them."""
    from ares.export import TrimRequest

    values: dict[str, Any] = options.model_dump(exclude={"trim", "files_hash"})
    values["weights"] = "".join(options.weights)
    if options.trim:
        values["trim"] = TrimRequest(**options.trim.model_dump(exclude={"drop_segments"}))
    return values


def _check_labels(path: Path, labels: LabelsFile) -> None:
    if not path.is_file():
        raise RequestError("the labels of the card are missing", f"{path}; copy it beside the card")
    (file,) = _hash_files(path.parent, [path], None)
    if file.sha256 != labels.sha256:
        raise RequestError(
            "the labels were changed after the card was written", f"{path} has the SHA-256 {file.sha256}"
        )


def _locate_sources(
    sources: Sequence[CardSource], folders: Sequence[Path]
) -> tuple[dict[DatasetKey, Path], list[RebuildDifference]]:
    """The folder of each source, and what of its files is not as the card says."""
    roots: dict[DatasetKey, Path] = {}
    differences: list[RebuildDifference] = []
    for source in sources:
        if not source.files:
            says = "no files, since it was not there when the card was written"
            differences.append(
                RebuildDifference(kind="source", name=source.dataset, expected=says, actual="not compared")
            )
            continue
        root = _locate_source(source, folders)
        if root is None:
            files = f"{count_of(len(source.files), 'file')}, the first {source.folder}/{source.files[0].path}"
            differences.append(
                RebuildDifference(kind="source", name=source.dataset, expected=files, actual="missing")
            )
            continue
        roots[source.key] = root
        differences += _compare_files(source, root)
    return roots, differences


def _locate_source(source: CardSource, folders: Sequence[Path]) -> Path | None:
    """The folder at or below some that has the most files of a source; None where none has any."""
    candidates = [
        path
        for folder in folders
        for path in _folders_below(folder)
        if path in folders or path.name == source.folder
    ]
    matches = {path: sum((path / file.path).is_file() for file in source.files) for path in candidates}
    best = max(candidates, key=matches.__getitem__, default=None)
    return best if best is not None and matches[best] else None


def _folders_below(folder: Path) -> Iterator[Path]:
    """A folder and those below it, some levels deep."""
    depth = len(folder.parts)
    for number, (path, subfolders, _) in enumerate(walk_folders(folder)):
        if number == _MOST_FOLDERS:
            return
        yield path
        if len(path.parts) - depth >= _DEEPEST:
            subfolders.clear()


def _compare_files(source: CardSource, root: Path) -> Iterator[RebuildDifference]:
    """The files of a source that are missing or have other bytes."""
    for file in source.files:
        name, path = f"{source.dataset}: {file.path}", root / file.path
        expected = f"{file.bytes} bytes with SHA-256 {file.sha256}"
        if not path.is_file():
            yield RebuildDifference(kind="file", name=name, expected=expected, actual=f"missing in {root}")
            continue
        (actual,) = _hash_files(root, [path], None)
        if actual != file:
            size = f"{actual.bytes} bytes with SHA-256 {actual.sha256}"
            yield RebuildDifference(kind="file", name=name, expected=expected, actual=size)


def _ingest_sources(
    stores: Stores, sources: Sequence[CardSource], roots: Mapping[DatasetKey, Path], quiet: bool
) -> None:
    """Read the sources as they were read for the card; all are listed before any is stored."""
    for store in (False, True):
        for source in sources:
            _ingest_source(stores, source, roots[source.key], quiet=quiet, store=store)


def _ingest_source(stores: Stores, source: CardSource, root: Path, *, quiet: bool, store: bool) -> None:
    """Read a source as it was read for the card, or only list what would be read."""
    spec = {name: value for name, value in (source.options.spec or {}).items() if name not in _FILES_OF_SPEC}
    with tempfile.TemporaryDirectory(prefix="ares-rebuild-") as folder:
        spec_path = Path(folder) / "spec.yaml"
        spec_path.write_text(json.dumps(spec), encoding="utf-8")  # JSON is YAML
        request = IngestRequest(
            sources=(str(root / source.file if source.file else root),),
            format=source.format,
            dataset=source.dataset,
            rate_hz=source.options.rate_hz,
            cameras=source.options.cameras,
            spec=str(spec_path) if spec else "",
        )
        if not store:
            plan_ingest(lambda: stores, request)
            return
        ingest_datasets(lambda: stores, lambda: stores, request, quiet=quiet)


def _compare_producers(stores: Stores, card: RecipeCard) -> Iterator[RebuildDifference]:
    """Code that read and checked the sources here and is of another version than that of the card."""
    kept = {text.split(" ")[0]: text for text in card.makers.values()}
    for id, producer in stores.annotations.producers().items():
        is_new = id not in card.makers and stores.annotations.count_annotations([id]).get(id)
        if is_new and producer.annotator in kept:
            yield RebuildDifference(
                kind="maker", name=producer.annotator, expected=kept[producer.annotator],
                actual=f"{producer.annotator} {producer.version}",
            )  # fmt: skip


def _compare_episodes(
    stores: Stores, members: Sequence[str], labels: StagedLabels
) -> Iterator[RebuildDifference]:
    """Members that are not here, or whose content is another."""
    member_ids = {member.partition(" ")[0] for member in members}
    for rows in batched((row for row in labels.episodes() if row.episode_id in member_ids), _PAGE):
        ids = [row.episode_id for row in rows]
        table = stores.tables.episodes.read_columns(["episode_id", "content_hash"], ids_filter(ids))
        hashes = dict(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
        for row in rows:
            actual = hashes.get(row.episode_id)
            if actual != row.content_hash:
                yield RebuildDifference(
                    kind="episode",
                    name=f"{row.episode_id} ({row.dataset}, key {row.key})",
                    expected=f"content {row.content_hash}",
                    actual="missing" if actual is None else f"content {actual}",
                )


def _export_again(
    stores: Stores,
    selection: CurationSet,
    card: CardExport,
    folder: str,
    report: RebuildReport,
    *,
    quiet: bool,
) -> RebuildReport:
    """Export the set as the card says, and compare every file."""
    options = _export_options(card.options)
    with tempfile.TemporaryDirectory(prefix="ares-rebuild-") as temporary:
        if card.plan:
            options["plan"] = str(Path(temporary) / _PLAN_FILE)
            Path(options["plan"]).write_text(card.plan, encoding="utf-8")
        format = options.pop("format")
        request = make_export_request(selection, Path(folder), format, cast("ExportOptions", options))
        path = export_with_progress(request, stores, quiet=quiet).path
    actual = _hash_export(path)
    differences = tuple(
        RebuildDifference(
            kind="export",
            name=name,
            expected=card.files.get(name, "no such file"),
            actual=actual.get(name, "missing"),
        )
        for name in sorted(card.files.keys() | actual.keys())
        # The set may have been split after the export of the card.
        if card.files.get(name) != actual.get(name) and (name in card.files or name != SPLIT_FILE)
    )
    same = sum(card.files.get(name) == digest for name, digest in actual.items())
    return replace(report, path=str(path), same_files=same, differences=(*report.differences, *differences))
