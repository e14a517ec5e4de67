"""Instructions, outcome and notes of a LeRobot episode, from its rows and its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ares.episode import Json
from ares.formats import ARES_PREFIX, ROW_RANGE_COLUMNS
from ingest.lerobot.feature_map import LeRobotFeatureMap, is_instruction
from ingest.lerobot.metadata import MetadataRow, as_count, task_texts
from ingest.lerobot.values import EpisodeRows
from ingest.names import distinct_texts

# Fields of the metadata that say where the data of an episode are.
_LOCATION_PREFIXES = ("data/", "videos/", "meta/", "stats/", *ROW_RANGE_COLUMNS)
_USED_FIELDS = ("episode_index", "tasks", "length")
# Longest list that is stored as a note.
_LONGEST_NOTE = 64
# Fields that the exporter of ARES writes, so that an exported episode is read back unchanged.
_EXPORTED_INSTRUCTION, _EXPORTED_OUTCOME = f"{ARES_PREFIX}instruction", f"{ARES_PREFIX}success"


def episode_instructions(
    root: str, feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow, warnings: list[str]
) -> tuple[str, ...]:
    """Distinct instructions: first those that the rows refer to, in order, then others that the metadata lists.

    A text that only an annotation such as "annotation.human.validity" refers to is no instruction.
    """
    if isinstance(row.get(_EXPORTED_INSTRUCTION), str):
        return distinct_texts([row[_EXPORTED_INSTRUCTION]])
    row_tasks = list(_referenced_texts(root, rows, "task_index"))
    instruction_texts = [
        text
        for key in feature_map.annotation_columns
        if is_instruction(key)
        for text in _referenced_texts(root, rows, key)
    ]
    instruction_texts += [
        text for key in feature_map.text_columns if is_instruction(key) for text in rows.texts.get(key, ())
    ]
    annotation_key_by_text = {
        text: key
        for key in feature_map.annotation_columns
        if not is_instruction(key)
        for text in _referenced_texts(root, rows, key)
    }
    metadata_tasks = list(_metadata_tasks(root, row))
    for key in dict.fromkeys(
        annotation_key_by_text[text]
        for text in metadata_tasks
        if text in annotation_key_by_text and text not in row_tasks + instruction_texts
    ):
        warnings.append(f"a task of the metadata is an annotation ({key}), not an instruction")
    if row_tasks and metadata_tasks and not set(row_tasks) & set(metadata_tasks):
        warnings.append("the task of the rows is not among those of the metadata")
    remaining_tasks = [text for text in metadata_tasks if text not in annotation_key_by_text]
    return distinct_texts([*row_tasks, *instruction_texts, *remaining_tasks])


def _metadata_tasks(root: str, row: MetadataRow) -> Iterator[str]:
    """Tasks of the metadata, which may be texts or indices, single or in a list."""
    tasks_field = row.get("tasks")
    for task in tasks_field if isinstance(tasks_field, list) else [tasks_field]:
        number = as_count(task)
        if isinstance(task, str):
            yield task
        elif number is not None and number in task_texts(root):
            yield task_texts(root)[number]


def _referenced_texts(root: str, rows: EpisodeRows, key: str) -> Iterator[str]:
    """Texts that a column of task indices refers to, in order of appearance."""
    values = rows.numbers.get(key)
    if values is None or values.size == 0:
        return
    first = values.flat[0]
    numbers = [first] if (values == first).all() else dict.fromkeys(values.ravel().tolist())
    texts = task_texts(root)
    for number in numbers:
        text = texts.get(number)
        if text is not None:
            yield text


def episode_outcome(
    feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow
) -> tuple[bool | None, str]:
    """Whether the episode succeeded, and the field that says so; reward and done are not used."""
    values = rows.numbers.get(feature_map.outcome_column)
    if values is not None and values.size and not (values != values).any():
        return bool((values != 0).any()), feature_map.outcome_column
    for name in ("success", _EXPORTED_OUTCOME):
        if row.get(name) in (True, False, 0, 1):
            return bool(row[name]), str(row.get(f"{ARES_PREFIX}success_source") or name)
    return None, ""


def episode_notes(
    root: str, feature_map: LeRobotFeatureMap, rows: EpisodeRows, row: MetadataRow
) -> dict[str, Json]:
    """Small values for the metadata: other fields of the list of episodes, annotations and texts of the steps."""
    notes: dict[str, Json] = {}
    for name, value in row.items():
        if name not in _USED_FIELDS and not name.startswith(_LOCATION_PREFIXES) and _is_note(value):
            notes[name] = value
    texts_by_key: dict[str, list[str]] = {
        key: list(_referenced_texts(root, rows, key)) for key in feature_map.annotation_columns
    }
    texts_by_key |= {key: list(rows.texts.get(key, ())) for key in feature_map.text_columns}
    for key, texts in texts_by_key.items():
        if texts and not is_instruction(key) and len(texts) <= _LONGEST_NOTE:
            notes[key] = texts[0] if len(texts) == 1 else list[Json](texts)
    return notes


def _is_note(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= _LONGEST_NOTE and all(_is_note(part) for part in value)
    if isinstance(value, Mapping):
        return False
    return isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < float("inf"))
