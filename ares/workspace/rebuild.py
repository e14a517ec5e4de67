"""Makes the set of a card, and its export, again, and says what differs from the card."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from ares.console import count_of
from ares.contract import DatasetKey
from ares.curation import (
    CurationSet,
    Sets,
    carried_name,
    write_split_rows,
)
from ares.errors import RequestError
from ares.export import SPLIT_FILE
from ares.io import output_path, walk_folders
from ares.jobs import IngestRequest
from ares.store import batched, count_uncounted_answers, file_origin, ids_filter
from ares.workspace.carried_labels import (
    StagedLabels,
    carry_annotations,
    repeat_actions,
    stage_labels,
)
from ares.workspace.label_lines import LabelsFile
from ares.workspace.operations import ingest_datasets, plan_ingest
from ares.workspace.recipe_cards import (
    PLAN_FILE,
    TEXTS,
    CardExport,
    CardExportOptions,
    CardSource,
    CardTrim,
    RecipeCard,
    hash_export,
    hash_files,
    hash_texts,
    read_recipe_card,
)
from ares.workspace.requested_exports import export_with_progress, make_export_request

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores
    from ares.workspace.requested_exports import ExportOptions


# Members that are read at once, and folders in which sources are looked for.
_PAGE, _MOST_FOLDERS = 10_000, 20_000
# Keys of a spec that name other files; what these say travels with the labels.
_FILES_OF_SPEC = ("spans", "span_unit", "subtask_names", "kinematics")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildDifference:
    """One thing that is not as the card says.

    Attributes:
        kind: "source", "file", "episode", "text" or "export".
        name: What it is: a file below its source, an episode with its dataset and key.
        expected: What the card has.
        actual: What is here; "missing" where nothing is.
    """

    kind: Literal["source", "file", "episode", "text", "export"]
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


def rebuild_set(
    stores: Stores,
    card_path: Path,
    folders: Sequence[Path],
    export: str = "",
    *,
    trust_answers_of: Collection[str] = (),
    accept_texts: bool = False,
    quiet: bool = False,
) -> RebuildReport:
    """Make the set of a card, and its export, from sources that lie anywhere.

    The card and its labels are checked as a whole, and sources are compared file by file, before anything is stored;
    where a file differs, that is the answer and nothing is made. A member whose texts differ from the card is named,
    and the set is made only where that is accepted. The same card may be given again.

    Args:
        stores: Stores of a workspace that has no other datasets.
        card_path: The card; its labels lie beside it.
        folders: Folders at or below which the sources are looked for.
        export: Folder to write the export to, or "".
        trust_answers_of: Names of the people whose answers in the card count.
        accept_texts: Whether the set is made although members have other texts than when the card was written.
        quiet: Show no progress.

    Raises:
        RequestError: The card or its labels are not as `write_recipe_card` writes them, the workspace has other
            datasets, the card has no export, or no answers of somebody who is to be trusted.
    """
    card, selection = read_recipe_card(card_path)
    members = card.ids
    labels_path = card_path.with_name(card.labels.file)
    _check_labels(labels_path, card.labels)
    if export and card.export is None:
        remedy = f"`ares set lock {shlex.quote(selection.label)} FILE --export FOLDER` adds one"
        raise RequestError("the card has no export", remedy)
    if export and card.export:
        _check_export(card.export, str(card_path))
    versions = (card.ares, version("ares-curation"))
    sets = Sets(stores.annotations)
    known = {version.label: version.ids_hash for version in sets.versions(selection.name)}
    if known.get(selection.label, selection.ids_hash) != selection.ids_hash:
        raise RequestError(f"the workspace has another set {selection.label}", "rename or delete it")
    with stage_labels(stores, labels_path, file_origin("card", card_path), trust_answers_of) as labels:
        _check_datasets(stores, card)
        roots, differences = _locate_sources(card.sources, folders)
        if differences:
            return RebuildReport(versions=versions, differences=tuple(differences))
        _ingest_sources(stores, card.sources, roots, quiet)
        with stores.write_lock("ares set rebuild"):
            count = carry_annotations(stores, labels, trust_answers_of)
            uncounted = count_uncounted_answers(stores.annotations, labels.origin)
            report = RebuildReport(annotations=count, versions=versions, uncounted=uncounted)
            differences += _compare_episodes(stores, members, labels)
            if not (differences or accept_texts):
                differences += _compare_texts(stores, members, card.texts)
            if differences:
                return replace(report, differences=tuple(differences))
            if selection.label not in known:
                repeat_actions(stores, labels)
            # The set may have been split after the export of the card.
            is_split = card.export is None or SPLIT_FILE in card.export.files
            name, rows = carried_name(selection), card.split_rows()
            with stores.annotations.atomic():
                frozen = sets.create_locked(selection, members)
                write_split_rows(stores.annotations, name, rows if is_split else [])
    report = replace(report, set=frozen.label, episodes=frozen.episodes)
    if export and card.export:
        report = _export_again(stores, frozen, card.export, export, report, quiet=quiet)
    with stores.write_lock("ares set rebuild"):
        write_split_rows(stores.annotations, name, rows)
    return report


def _check_datasets(stores: Stores, card: RecipeCard) -> None:
    """Raises RequestError for a workspace with episodes of other datasets."""
    known = {source.key for source in card.sources}
    for batch in stores.tables.episodes.scan(list(DatasetKey._fields)):
        if any(DatasetKey(**row) not in known for row in batch.to_pylist()):
            detail = f"{stores.location} has other datasets than the card; name a new one with -w"
            raise RequestError("the workspace has episodes already", detail)


def _compare_texts(
    stores: Stores, members: Sequence[str], texts: Sequence[str]
) -> Iterator[RebuildDifference]:
    """Members whose instruction or caption is another than when the card was written; none of an older card."""
    if not texts:
        return
    expected, ids = set(texts), sorted({member.partition(" ")[0] for member in members})
    changed = [id for id, digest in hash_texts(stores, ids) if f"{id} {digest}" not in expected]
    columns = [name for name in TEXTS if name in stores.tables.episodes.columns()]
    names = ["episode_id", "dataset", "key", *columns]
    for part in batched(changed, _PAGE):
        for row in stores.tables.episodes.read_columns(names, ids_filter(part)).to_pylist():
            yield RebuildDifference(
                kind="text",
                name=f"{row['episode_id']} ({row['dataset']}, key {row['key']})",
                expected="another text, which a person gave",
                actual="; ".join(f"{name} {row[name] or ''!r}" for name in columns),
            )


def _check_export(card: CardExport, where: str) -> None:
    """Raises RequestError for an export that cannot be made again."""
    from ares.export import read_merge_plan
    from ares.registry import exporters

    card.check(where)
    exporters.get(card.options.format)
    _export_options(card.options)
    if card.plan:
        with tempfile.TemporaryDirectory(prefix="ares-rebuild-") as folder:
            path = Path(folder) / PLAN_FILE
            path.write_text(card.plan, encoding="utf-8")
            read_merge_plan(path)


def _export_options(options: CardExportOptions) -> dict[str, Any]:
    """The options of an export as `WorkspaceJobs.export` takes them."""
    from ares.export import TrimRequest

    values: dict[str, Any] = options.model_dump(include=set(CardExportOptions.model_fields) - {"trim"})
    values["weights"] = "".join(options.weights)
    if options.trim:
        values["trim"] = TrimRequest(**options.trim.model_dump(include=set(CardTrim.model_fields)))
    return values


def _check_labels(path: Path, labels: LabelsFile) -> None:
    if not path.is_file():
        raise RequestError("the labels of the card are missing", f"{path}; copy it beside the card")
    (file,) = hash_files(path.parent, [path], None)
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
        for path, _, _ in islice(walk_folders(folder), _MOST_FOLDERS)
        if path in folders or path.name == source.folder
    ]
    matches = {path: sum((path / file.path).is_file() for file in source.files) for path in candidates}
    best = max(candidates, key=matches.__getitem__, default=None)
    return best if best is not None and matches[best] else None


def _compare_files(source: CardSource, root: Path) -> Iterator[RebuildDifference]:
    """The files of a source that are missing or have other bytes."""
    for file in source.files:
        name, path = f"{source.dataset}: {file.path}", root / file.path
        expected = f"{file.bytes} bytes with SHA-256 {file.sha256}"
        if not path.is_file():
            yield RebuildDifference(kind="file", name=name, expected=expected, actual=f"missing in {root}")
            continue
        (actual,) = hash_files(root, [path], None)
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
            options["plan"] = str(Path(temporary) / PLAN_FILE)
            Path(options["plan"]).write_text(card.plan, encoding="utf-8")
        format = options.pop("format")
        request = make_export_request(
            stores, selection, output_path(folder), format, cast("ExportOptions", options)
        )
        path = export_with_progress(request, stores, quiet=quiet).path
    actual = hash_export(path)
    differences = tuple(
        RebuildDifference(
            kind="export",
            name=name,
            expected=card.files.get(name, "no such file"),
            actual=actual.get(name, "missing"),
        )
        for name in sorted(card.files.keys() | actual.keys())
        if card.files.get(name) != actual.get(name)
    )
    same = sum(card.files.get(name) == digest for name, digest in actual.items())
    return replace(report, path=str(path), same_files=same, differences=(*report.differences, *differences))
