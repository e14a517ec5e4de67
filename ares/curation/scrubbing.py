"""Takes the names of purged episodes out of all documents of the log, and out of files of jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ares.curation.duplicate_groups import keep_duplicate_groups
from ares.curation.sets import hash_members
from ares.episode import Json
from ares.jobs import ACCEPTED_FAILURES, FAILURES
from ares.store import (
    ACTION_MEMBERS,
    ACTIONS,
    MODEL_REPLIES,
    PURGES,
    SET_HEADERS,
    SET_MEMBERS,
    SPENT_PREFIX,
    TOMBSTONES,
    action_key,
    batched,
    read_history,
    recorded_columns,
    segment_id,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ares.annotation import Annotation
    from ares.store import AnnotationStore, Stores


# Documents that are held at once: a block of the members of a set has some hundred kilobytes.
_LOOKUP_BATCH, _DOCUMENT_BATCH, _ID = 1_000, 100, re.compile(r"[0-9a-f]{16}")
_PURGED_TEXT, _NEAR_DUPLICATES = "(purged)", "near_duplicates"
# Purges are documents: a header under its token, and the ids below it until every trace of them is deleted.
_KEPT_COLLECTIONS = {PURGES, TOMBSTONES}


def remove_ids_from_documents(stores: Stores, ids: Sequence[str], sources: set[str]) -> None:
    """Take episodes out of all documents, each read once; repeating it after a crash changes nothing more.

    Replies of models name no episode and may be about any: all of them go. A failure that names an episode goes, and so
    does what was made of an instruction that no other episode has. Other documents lose what names the episodes.

    Args:
        stores: Stores of the workspace; the annotations of the episodes are still in its log.
        ids: The episodes.
        sources: Their locations in their sources, which reports of jobs may name.
    """
    log, instructions = stores.annotations, _lost_instructions(stores, set(ids))
    scrubber = _Scrubber({*ids, *_subjects_of_episodes(log, ids)}, sources)
    for collection in sorted(set(log.collections()) - _KEPT_COLLECTIONS):
        for documents in batched(log.find_documents(collection), _DOCUMENT_BATCH):
            dropped, changed = list[str](), dict[str, Json]()
            for key, document in documents:
                is_reply = collection == MODEL_REPLIES and not key.startswith(SPENT_PREFIX)
                is_named = scrubber.names(document)
                task = document.get("task") if isinstance(document, dict) else None
                is_about_task = isinstance(task, str) and task in instructions
                is_failure = is_named and collection in (FAILURES, ACCEPTED_FAILURES)
                if is_reply or is_about_task or is_failure or scrubber.names(key):
                    dropped.append(key)
                elif is_named:
                    changed[key] = scrubber.scrub(document)
            log.drop_documents(collection, dropped)
            log.put_documents(collection, changed)
    _correct_sets(log)
    _correct_actions(log)
    escaped = {json.dumps(source)[1:-1] for source in sources}
    _delete_job_files(stores.folder / "jobs", _Scrubber(set(ids), sources | escaped))


def _delete_job_files(folder: Path, scrubber: _Scrubber) -> None:
    """Delete the files of the jobs of pages of which one names the episodes, and such files that were uploaded."""
    for path in [path for path in folder.rglob("*") if path.suffix != ".lock"]:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as lines:
                is_named = any(map(scrubber.names, lines))
            for job_file in folder.glob(f"{path.stem}.*") if path.parent == folder else [path]:
                if is_named and job_file.suffix != ".lock":  # a job that runs holds it
                    job_file.unlink()


def _lost_instructions(stores: Stores, ids: set[str]) -> set[str]:
    """The instructions of some episodes that no other episode has, recorded ones included."""
    lost: set[str] = set()
    kept: set[str] = set()
    episodes, removed = stores.tables.episodes, stores.tables.removed
    for scan, existing in ((episodes.scan, episodes.columns()), (removed.scan, removed.column_names())):
        texts = recorded_columns(existing, "instruction")
        for batch in scan(["episode_id", *texts]) if texts else ():
            columns = (batch[name].to_pylist() for name in ("episode_id", *texts))
            for episode_id, *stated in zip(*columns, strict=True):
                (lost if episode_id in ids else kept).update(filter(None, stated))
    return lost - kept


def _subjects_of_episodes(log: AnnotationStore, ids: Sequence[str]) -> set[str]:
    """What work on the episodes may have failed for: their annotations and segments."""
    subjects: set[str] = set()
    for chunk in batched(ids, _LOOKUP_BATCH):
        for annotation in log.find_annotations(chunk):
            subjects |= _ids_of_annotation(annotation)
    return subjects


def _ids_of_annotation(annotation: Annotation) -> set[str]:
    return {annotation.annotation_id, annotation.subject, segment_id(annotation)}


class _Scrubber:
    """Replaces what names purged episodes.

    Args:
        ids: Ids of the episodes, their annotations and segments.
        sources: Locations of the episodes in their sources.
    """

    def __init__(self, ids: set[str], sources: set[str]) -> None:
        self._ids, self._sources = ids, sorted(sources - {""})

    def names(self, value: Json) -> bool:
        """Whether a value contains the name of a purged episode."""
        if isinstance(value, str):
            return any(match in self._ids for match in _ID.findall(value)) or any(
                source in value for source in self._sources
            )
        if isinstance(value, Mapping):
            return any(self.names(key) or self.names(item) for key, item in value.items())
        return isinstance(value, list | tuple) and any(self.names(item) for item in value)

    def scrub(self, value: Json) -> Json:
        """The value without them: items of lists and entries are left out, parts of texts are replaced."""
        if isinstance(value, str):
            return self._scrub_text(value)
        if isinstance(value, Mapping):
            return {key: self.scrub(item) for key, item in value.items() if not self.names(key)}
        if isinstance(value, list | tuple):
            return [self.scrub(item) for item in value if not self._is_entry(item)]
        return value

    def _is_entry(self, item: Json) -> bool:
        """Whether an item of a list stands for a purged episode: an id, or a failure with its key."""
        if isinstance(item, list | tuple):
            return len(item) == 2 and self.names(item)
        return isinstance(item, str) and self.names(item)

    def _scrub_text(self, text: str) -> str:
        for source in self._sources:
            text = text.replace(source, _PURGED_TEXT)
        return _ID.sub(lambda match: _PURGED_TEXT if match[0] in self._ids else match[0], text)


def _correct_sets(log: AnnotationStore) -> None:
    """Let every set have the count and the hash of the members that are left."""
    for key, document in log.find_documents(SET_HEADERS):
        header = cast("dict[str, Json]", document)
        blocks = (cast("list[str]", block) for _, block in log.find_documents(SET_MEMBERS, f"{key}/"))
        ids_hash, episodes, count = hash_members(member for block in blocks for member in block)
        lost = int(str(header.get("spans", header["episodes"]))) - count
        if lost:
            purged = int(str(header.get("purged", 0))) + lost
            changed = {**header, "episodes": episodes, "ids_hash": ids_hash, "purged": purged}
            if "spans" in header:
                changed["spans"] = count
            if not count:  # how they were selected may hold words of theirs
                changed["recipe"] = {}
            log.put_documents(SET_HEADERS, {key: changed})


def _correct_actions(log: AnnotationStore) -> None:
    """Let every action say how many of its members were purged."""
    for action in read_history(log).actions:
        if action.members:
            blocks = log.find_documents(ACTION_MEMBERS, f"{action.members}/")
            purged = action.count - sum(len(cast("list[Json]", block)) for _, block in blocks)
            if purged != action.purged:
                changed = {**action.to_json(), "purged": purged}
                if purged == action.count:  # what was said of them, and how they were selected
                    changed["details"] = _without_words(action.details)
                log.put_documents(ACTIONS, {action_key(action.number): changed})


def _without_words(details: Mapping[str, Json]) -> dict[str, Json]:
    """The details of an action without its note and its recipe."""
    replaced: dict[str, Json] = {"note": _PURGED_TEXT, "recipe": {}}
    return {name: replaced.get(name, value) for name, value in details.items()}


def leave_duplicate_groups(stores: Stores, ids: Sequence[str]) -> None:
    """Let what is kept of near duplicates name some episodes no more: the others of a group stay in it."""
    log, scrubber = stores.annotations, _Scrubber(set(ids), set())
    old = [
        annotation.annotation_id
        for chunk in batched(log.find_episodes(_NEAR_DUPLICATES), _LOOKUP_BATCH)
        for annotation in log.find_annotations(chunk, [_NEAR_DUPLICATES])
        if scrubber.names(annotation.value)
    ]
    if old:
        keep_duplicate_groups(stores, ())
        log.delete_annotations(old)
