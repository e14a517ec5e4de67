"""Labels that travel with a set: written to a file, stored elsewhere, given to episodes of the same content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import BaseModel, ConfigDict

from ares.annotation import Annotation, ColumnType, make_segment_id
from ares.contract import DatasetKey, read_contracts, write_contracts
from ares.curation.selection import SelectedEpisodes
from ares.curation.tags_and_notes import add_tag
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.store import (
    AnnotationRow,
    annotation_from_row,
    annotation_to_row,
    arrow_type,
    batched,
    conjunction,
    ids_filter,
    in_condition,
    maker_from_text,
    maker_to_text,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# Documents that say what counts of the labels: they travel whole. What belongs to one machine or to a page does not.
_CARRIED_DOCUMENTS = (
    "action_members", "actions", "certificates", "contracts", "instruction_audits", "instruction_verdicts",
    "judge_rates", "judge_trust", "motion_scales", "pins", "review_disputes", "review_items", "review_queues",
    "success_criteria", "valuation_samples",
)  # fmt: skip
# Lines and annotations that are read at once.
_PAGE = 10_000


class LabelsFile(BaseModel):
    """The file beside a card with what only models and people can say: its name, hash and number of annotations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    sha256: str
    annotations: int


def write_labels(stores: Stores, datasets: Sequence[DatasetKey], path: Path) -> tuple[LabelsFile, set[str]]:
    """Write every label of some datasets, a JSON line each; and return what the card says of it, and the makers."""
    digest, count, maker_ids = hashlib.sha256(), 0, set[str]()
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        for line in _label_lines(stores, datasets):
            # Keys keep their order, in which manifests of exports show them.
            text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
            file.write(text)
            digest.update(text.encode())
            if row := cast("list[str] | None", line.get("annotation")):
                count += 1
                maker_ids.add(row[AnnotationRow._fields.index("maker_id")])
    partial.replace(path)
    return LabelsFile(file=path.name, sha256=digest.hexdigest(), annotations=count), maker_ids


def _label_lines(stores: Stores, datasets: Sequence[DatasetKey]) -> Iterator[dict[str, Json]]:
    """Columns, makers, documents, episodes and annotations: of whole datasets, over which judges are counted."""
    log, episodes = stores.annotations, stores.tables.episodes
    names = in_condition("dataset", sorted({key.dataset for key in datasets}))
    # An export has every column, also one that only episodes of other datasets fill.
    yield {"columns": dict(episodes.columns())}
    for maker in log.makers().values():
        yield {"maker": json.loads(maker_to_text(maker))}
    kept = {key.document_key for key in datasets}
    for collection in _CARRIED_DOCUMENTS:
        for key, document in log.find_documents(collection):
            if collection != "contracts" or key in kept:
                yield {"document": [collection, key, document]}
    columns = ["episode_id", "content_hash", "dataset", "key"]
    columns += [name for name in ("tags",) if name in episodes.columns()]
    for batch in episodes.scan(columns, names):
        yield from ({"episode": row} for row in batch.to_pylist())
    after = 0
    while entries := log.read(after, _PAGE):
        after = entries[-1].sequence
        ids = sorted({entry.annotation.episode_id for entry in entries})
        known = episodes.ids(conjunction([ids_filter(ids), names]))
        for entry in entries:
            if entry.annotation.episode_id in known:
                yield {"annotation": list(annotation_to_row(entry.annotation))}


def read_labels(path: Path) -> Iterator[tuple[str, Any]]:
    """The lines of a file of labels, each as its kind and its content. Raises RequestError for any other file."""
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                ((kind, content),) = json.loads(line).items()
                if not _is_label_line(kind, content):
                    raise ValueError(f"a line of the wrong form: {line[:100]!r}")
                yield kind, content
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RequestError(
            "these are no labels of a card", f"{path}: {error!r}; `ares set lock` writes NAME.labels.jsonl"
        ) from None


def _is_label_line(kind: str, content: Any) -> bool:
    """Whether a line has the form that `write_labels` gives it."""
    lengths = {"annotation": len(AnnotationRow._fields), "document": 3}
    if kind in lengths:
        texts = content if kind == "annotation" else content[:2]
        is_list = isinstance(content, list) and len(content) == lengths[kind]
        return is_list and all(isinstance(text, str) for text in texts)
    if not isinstance(content, dict):
        return False
    return kind in ("columns", "maker") or (
        kind == "episode" and {"episode_id", "content_hash"} <= content.keys()
    )


def import_labels(stores: Stores, path: Path) -> int:
    """Store the labels of a card under the same ids and show them. Returns the number of annotations."""
    log, count = stores.annotations, 0
    with stores.write_lock("ares set rebuild"):
        for kinds in batched(read_labels(path), _PAGE):
            rows = [AnnotationRow(*content) for kind, content in kinds if kind == "annotation"]
            for kind, content in kinds:
                if kind == "maker":
                    log.add_maker(maker_from_text(json.dumps(content)))
                elif kind == "document":
                    _put_document(stores, *content)
                elif kind == "columns":
                    _add_columns(stores, content)
            if rows:
                log.append(rows)
                count += len(rows)
        stores.sync()
    return count


def _add_columns(stores: Stores, types: Mapping[str, str]) -> None:
    """Add the columns of annotators that the episodes do not have, without values."""
    import pyarrow as pa

    known, missing = get_args(ColumnType), types.keys() - stores.tables.episodes.columns()
    columns = {name: arrow_type(cast("ColumnType", types[name])) for name in missing if types[name] in known}
    stores.tables.episodes.add_missing_columns(pa.schema(sorted(columns.items())))


def _put_document(stores: Stores, collection: str, key: str, document: Json) -> None:
    """Store a document; of a dataset it stays what this machine knows of its folder."""
    if collection != "contracts":
        stores.annotations.put_documents(collection, {key: document})
        return
    format, _, rest = key.partition("/")
    dataset = DatasetKey(format, *rest.rsplit("/", 1))
    here = read_contracts(stores.annotations, dataset).source
    stores.annotations.put_documents(collection, {key: document})
    write_contracts(
        stores.annotations, dataset, read_contracts(stores.annotations, dataset)._replace(source=here)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLabels:
    """What labels of a card were given to episodes of a workspace.

    Attributes:
        episodes: Episodes here that have the content of an episode of the card.
        annotations: Annotations that they got.
        tags: Tags that they got.
    """

    episodes: int
    annotations: int
    tags: int

    def to_json(self) -> dict[str, Json]:
        """The counts as JSON."""
        return {"episodes": self.episodes, "annotations": self.annotations, "tags": self.tags}


def carry_labels(stores: Stores, path: Path) -> CarriedLabels:
    """Give the labels of a card to the episodes here that have the same content, whatever their ids and numbers are.

    Args:
        stores: Stores of the workspace.
        path: The labels that `ares set lock` wrote beside a card.

    Raises:
        RequestError: The file has no labels.
    """
    targets, tags = _find_same_content(stores, path)
    count, known = 0, dict[str, str]()
    with stores.write_lock("ares ingest"):
        for kinds in batched(read_labels(path), _PAGE):
            carried: list[Annotation] = []
            for kind, content in kinds:
                if kind == "maker":
                    stores.annotations.add_maker(maker_from_text(json.dumps(content)))
                elif kind == "annotation" and content[1] in targets:
                    annotation = annotation_from_row(AnnotationRow(*content))
                    carried += (
                        _move_annotation(annotation, id, known) for id in targets[annotation.episode_id]
                    )
            if carried:
                stores.annotations.append(carried)
                count += len(carried)
        stores.sync()
    for tag, ids in tags.items():
        with SelectedEpisodes(EpisodeSelection(ids=sorted(ids)), ids) as selected:
            add_tag(stores, tag, selected)
    episodes = len({id for ids in targets.values() for id in ids})
    return CarriedLabels(episodes=episodes, annotations=count, tags=sum(map(len, tags.values())))


def _find_same_content(stores: Stores, path: Path) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """By id of an episode of the card the episodes here with its content, and those that are to have each tag."""
    targets: dict[str, list[str]] = {}
    tags: dict[str, set[str]] = {}
    stated = (content for kind, content in read_labels(path) if kind == "episode" and content["content_hash"])
    for rows in batched(stated, _PAGE):
        where = in_condition("content_hash", sorted({row["content_hash"] for row in rows}))
        here: dict[str, list[str]] = {}
        for row in stores.tables.episodes.read_columns(["episode_id", "content_hash"], where).to_pylist():
            here.setdefault(row["content_hash"], []).append(row["episode_id"])
        for row in rows:
            if ids := here.get(row["content_hash"]):
                targets[row["episode_id"]] = ids
                for tag in row.get("tags") or ():
                    tags.setdefault(tag, set()).update(ids)
    return targets, tags


def _move_annotation(annotation: Annotation, episode_id: str, known: dict[str, str]) -> Annotation:
    """The annotation as one of another episode; what it describes is the same part of that.

    Args:
        annotation: One of an episode of the card; what it describes came before it.
        episode_id: The episode here.
        known: By episode here and old subject the new one; grows.
    """
    old = annotation.episode_id
    start, stop = annotation.start_seconds, annotation.stop_seconds
    known[f"{episode_id} {old}"] = episode_id
    known[f"{episode_id} {make_segment_id(old, start, stop)}"] = make_segment_id(episode_id, start, stop)
    subject = known.get(f"{episode_id} {annotation.subject}", annotation.subject)
    moved = replace(annotation, episode_id=episode_id, subject=subject, subject_kind=annotation.subject_kind)
    known[f"{episode_id} {annotation.annotation_id}"] = moved.annotation_id
    return moved
