"""What a LeRobot episode says in words: instructions, annotations, outcome, and other metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ares.episode import Json
from ingest.lerobot_meta import Row, tasks, whole_number
from ingest.lerobot_plan import Plan, is_instruction
from ingest.lerobot_values import Rows
from ingest.roles import distinct

# Fields of the metadata that say where an episode is, not what it is.
_PLACES = ("data/", "videos/", "meta/", "stats/", "dataset_from_index", "dataset_to_index")
_KNOWN = ("episode_index", "tasks", "length")
# A list in the metadata that is longer is no note.
_LONGEST_NOTE = 64
# Our own exporter keeps these, so that an episode comes back as it went.
_OWN_INSTRUCTION, _OWN_OUTCOME = "ares/instruction", "ares/success"


def instructions(root: str, plan: Plan, rows: Rows, row: Row, warnings: list[str]) -> tuple[str, ...]:
    """Every different instruction: those that the rows point at, in order, then others that the metadata lists.

    A text that only an annotation such as "annotation.human.validity" points at is none.
    """
    if isinstance(row.get(_OWN_INSTRUCTION), str):
        return distinct([row[_OWN_INSTRUCTION]])
    pointed = list(_pointed(root, rows, "task_index"))
    spoken = [text for key in plan.annotations if is_instruction(key) for text in _pointed(root, rows, key)]
    spoken += [text for key in plan.texts if is_instruction(key) for text in rows.texts.get(key, ())]
    remarks = {
        text: key for key in plan.annotations if not is_instruction(key) for text in _pointed(root, rows, key)
    }
    listed = list(_listed(root, row))
    for key in dict.fromkeys(
        remarks[text] for text in listed if text in remarks and text not in pointed + spoken
    ):
        warnings.append(f"a task of the metadata is an annotation ({key}), no instruction")
    if pointed and listed and not set(pointed) & set(listed):
        warnings.append("the task of the rows is not among those of the metadata")
    kept = [text for text in listed if text not in remarks]
    return distinct([*pointed, *spoken, *kept])


def _listed(root: str, row: Row) -> Iterator[str]:
    """Tasks of the metadata, which may be texts or numbers, one or several."""
    told = row.get("tasks")
    for task in told if isinstance(told, list) else [told]:
        number = whole_number(task)
        if isinstance(task, str):
            yield task
        elif number is not None and number in tasks(root):
            yield tasks(root)[number]


def _pointed(root: str, rows: Rows, key: str) -> Iterator[str]:
    """Texts that a column of numbers of tasks points at, in order of appearance."""
    values = rows.numbers.get(key)
    if values is None or values.size == 0:
        return
    first = values.flat[0]
    numbers = [first] if (values == first).all() else dict.fromkeys(values.ravel().tolist())
    texts = tasks(root)
    for number in numbers:
        text = texts.get(number)
        if text is not None:
            yield text


def outcome(plan: Plan, rows: Rows, row: Row) -> tuple[bool | None, str]:
    """Whether the episode succeeded and which field says so; reward and done never do."""
    values = rows.numbers.get(plan.outcome)
    if values is not None and values.size and not (values != values).any():
        return bool((values != 0).any()), plan.outcome
    for name in ("success", _OWN_OUTCOME):
        if row.get(name) in (True, False, 0, 1):
            return bool(row[name]), str(row.get("ares/success_source") or name)
    return None, ""


def metadata(root: str, plan: Plan, rows: Rows, row: Row) -> dict[str, Json]:
    """Small notes: further fields of the episode's metadata, annotations, and texts of its steps."""
    notes: dict[str, Json] = {}
    for name, value in row.items():
        if name not in _KNOWN and not name.startswith(_PLACES) and _is_note(value):
            notes[name] = value
    found: dict[str, list[str]] = {key: list(_pointed(root, rows, key)) for key in plan.annotations}
    found |= {key: list(rows.texts.get(key, ())) for key in plan.texts}
    for key, texts in found.items():
        if texts and not is_instruction(key) and len(texts) <= _LONGEST_NOTE:
            notes[key] = texts[0] if len(texts) == 1 else list[Json](texts)
    return notes


def _is_note(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= _LONGEST_NOTE and all(_is_note(one) for one in value)
    if isinstance(value, Mapping):
        return False
    return isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < float("inf"))
