"""Columns, codes and producers in the words of a page: their labels, their groups, and what a code stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from ares.annotation import Producer
from ares.episode import Json, format_duration

# Groups of the filters, in the order of the page, with the beginnings of the names of their columns.
_GROUP_STARTS: Mapping[str, tuple[str, ...]] = {
    "outcome": ("outcome", "success", "person_success", "failure_", "conflict", "caption_success"),
    "caption": ("caption", "verb", "object", "place", "arm", "count", "num_segments", "segment_", "slot_"),
    "attributes": ("attr_", "attributes_"),
    "motion": (
        "path_length", "mean_speed", "peak_speed", "jerk", "sparc", "joint_", "idle_share", "direction_changes",
        "gripper_events", "hand_events", "action_",
    ),
    "checks": ("quality_", "instruction_fits", "corrected_instruction", "instruction_"),
    "grade": ("grade", "acceptable", "reviewe", "disagreement"),
}  # fmt: skip
# Columns about files, clocks and programs, which few people filter by.
MACHINE_GROUP = "details"
_MACHINE_STARTS = (
    *(
        "format",
        "version",
        "split",
        "complete",
        "ingested",
        "rate_",
        "claimed_",
        "measured_",
        "clock_",
        "frame_",
    ),
    *(
        "num_cameras",
        "timestamp_",
        "map_",
        "embed_",
        "joint_unit",
        "motion_",
        "grade_margin",
        "grade_refuted",
    ),
    *("outcome_source", "success_source", "success_gaps", "success_original", "instruction_original"),
)
EPISODE_GROUP = "episode"
GROUPS = (EPISODE_GROUP, *_GROUP_STARTS, MACHINE_GROUP)

# Columns that come first in every list of columns.
_USUAL = (
    *("dataset", "instruction", "grade", "outcome", "success", "robot", "duration_seconds", "num_steps"),
    *("rate_hz", "num_cameras"),
)
_DURATION = "duration_seconds"


_UNITS = {"_seconds": " (s)", "_hz": " (Hz)"}
# Labels of columns whose names say too little.
_LABELS: Mapping[str, str] = {
    "key": "record",
    "success": "outcome (success or failure)",
    "outcome_share": "share of the task that was done",
    "outcome_source": "origin of the outcome",
    "num_steps": "steps",
    "num_cameras": "cameras",
    "num_segments": "segments",
    "rate_source": "origin of the rate",
    "success_source": "origin of the success",
    "success_original": "recorded success",
    "success_source_original": "origin of the recorded success",
    "instruction_original": "recorded instruction",
    "instructions_original": "recorded instructions",
    "measured_rate_hz": "measured rate (Hz)",
    "claimed_rate_hz": "claimed rate (Hz)",
    "rate_spread": "spread of the rate",
    "clock_shift_seconds": "uneven clock, up to (s)",
    "quality_codes": "findings",
    "quality_findings": "number of findings",
    "timestamp_jitter": "jitter of the stamps",
    "instruction_fits": "instruction fits",
    "corrected_instruction": "corrected instruction",
    "person_success": "outcome by people",
    "caption_success": "outcome in the caption",
    "conflict": "outcomes that differ",
    "jerk_ldlj": "smoothness by jerk (LDLJ)",
    "sparc": "smoothness by spectrum (SPARC)",
    "joint_jerk_ldlj": "joint smoothness by jerk (LDLJ)",
    "joint_sparc": "joint smoothness by spectrum (SPARC)",
    "idle_share": "share of time at rest",
    "action_lag_seconds": "lag of the state behind the action (s)",
    "grade_refuted": "judge is refuted",
    "grade_time": "time of the grade",
    "grade_split": "criteria that judges differ on",
    "grade_margin": "certainty of the grade",
    "disagreement": "what producers differ on",
    "map_x": "map, across",
    "map_y": "map, up",
}
_OUTCOMES: Mapping[str, str] = {
    **dict.fromkeys(("true", "yes"), "success"),
    **dict.fromkeys(("false", "no"), "failure"),
}
VERDICTS: Mapping[str, str] = {
    "MET": "met",
    "UNMET": "not met",
    "UNSURE": "cannot tell",
    "NA": "does not apply",
    "ERROR": "no answer",
}


# A hash at the end of the name of a model: letters and digits, which no date and no word has.
_HASH = re.compile(r"[@-](?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,}\b")
_LONG_HASH = re.compile(r"[0-9a-f]{16,}")
# Names of columns within a sentence, and the verdict on a criterion, with who said it.
_SNAKE_CASE = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_VERDICT = re.compile(r"(\w+)=(\w+)(?:\((\w+)\))?")
# What a person reads of a stored document: neither its ids nor its hashes.
_UNREAD_ENDINGS = ("_id", "_hash", "_ids")


def format_column_label(column: str) -> str:
    """Return the display name of a column: "duration_seconds" is "duration (s)"."""
    if column in _LABELS:
        return _LABELS[column]
    if column.endswith("_maker"):
        return f"{column.removesuffix('_maker').replace('_', ' ')} made by"
    unit = next((ending for ending in _UNITS if column.endswith(ending)), "")
    return column.removesuffix(unit).replace("_", " ") + _UNITS.get(unit, "")


def column_group(column: str) -> str:
    """Return the group of the filters that a column is in."""
    if column.endswith("_maker") or column.startswith(_MACHINE_STARTS):
        return MACHINE_GROUP
    for group, starts in _GROUP_STARTS.items():
        if column.startswith(starts):
            return group
    return EPISODE_GROUP


def column_rank(column: str) -> tuple[int, int, str]:
    """Where a column comes in a list: the usual ones, then by group, and by label within a group."""
    usual = _USUAL.index(column) if column in _USUAL else len(_USUAL)
    return usual, GROUPS.index(column_group(column)), format_column_label(column).lower()


def column_choice(column: str) -> str:
    """The label of a column in a list ordered by `column_rank`: behind the usual ones, with its group."""
    label = format_column_label(column)
    return label if column in _USUAL else f"{column_group(column)} · {label}"


def code_words(code: str) -> str:
    """Return a code as words: "END_POSE" is "end pose", "not_acceptable" is "not acceptable"."""
    return code.lower().replace("_", " ")


def model_words(text: str) -> str:
    """Return the name of a model without the hashes of its weights."""
    return _HASH.sub("", text)


def producer_words(producers: Mapping[str, Producer], maker_id: str) -> str:
    """Return a producer for people: the model or plug-in with its version; of those with the same words its number."""
    producer = producers.get(maker_id)
    if producer is None:
        return "an unknown producer"
    if producer.kind == "person":
        return " ".join(["a person", producer.model, *map(str, producer.settings.values())]).strip()
    model = _HASH.sub("", producer.model)
    alike = [
        other_id
        for other_id, other in producers.items()
        if (other.annotator, other.version) == (producer.annotator, producer.version)
        and _HASH.sub("", other.model) == model
    ]
    number = f", settings {alike.index(maker_id) + 1} of {len(alike)}" if len(alike) > 1 else ""
    return f"{model or code_words(producer.annotator)}, version {producer.version}{number}"


def value_words(column: str, value: str, producers: Mapping[str, Producer]) -> str:
    """Return a value of a column as a sentence says it; the value where it is words already."""
    if column.endswith("_maker"):
        return producer_words(producers, value)
    if column in ("success", "person_success", "caption_success"):
        return _OUTCOMES.get(value, value)
    if column.startswith("grade_") and value in VERDICTS:
        return VERDICTS[value]
    if column == "grade_verdicts":
        return ", ".join(
            f"{code_words(code)} {VERDICTS.get(verdict, verdict)}{f' (by {by})' if by else ''}"
            for code, verdict, by in _VERDICT.findall(value)
        )
    if column.endswith("_gaps"):
        return _SNAKE_CASE.sub(lambda part: format_column_label(part[0]), value)
    if column == "quality_codes":
        # A code and its name, "A006 saturated".
        return ", ".join((code.partition(" ")[2] or code).replace("-", " ") for code in value.split(", "))
    return code_words(value) if column in ("grade", "rate_source") else value


def value_line(column: str, value: object, unit: str, producers: Mapping[str, Producer]) -> str:
    """Name, value and unit of a column on one line: "duration: 5.2 s".

    Args:
        column: Name of the column.
        value: Its value.
        unit: Its unit, as far as one is declared; that of the label counts, too.
        producers: Producers by id.
    """
    label, _, label_unit = format_column_label(column).removesuffix(")").partition(" (")
    if label_unit not in ("s", "Hz"):
        label, label_unit = (
            format_column_label(column),
            _SNAKE_CASE.sub(lambda part: format_column_label(part[0]), unit),
        )
    if value is None:
        return f"{label}: no value"
    if column == _DURATION and isinstance(value, int | float):
        return f"{label}: {format_duration(value)}"
    text = value_words(column, format_value_for_people(value), producers)
    return f"{label}: {text} {label_unit}".rstrip()


def time_words(created: str) -> str:
    """Return a time of the log to the minute: "2026-11-27 17:20"."""
    return created[:16].replace("T", " ")


def document_words(document: Mapping[str, Json], producers: Mapping[str, Producer]) -> dict[str, str]:
    """Return what an annotation, a report or a producer's settings say: labels and values, without ids and hashes."""
    rows = {}
    for name, value in document.items():
        is_hash = isinstance(value, str) and _LONG_HASH.fullmatch(value)
        if value in (None, "", [], {}) or name.endswith(_UNREAD_ENDINGS) or is_hash:
            continue
        if isinstance(value, dict):
            text = ", ".join(f"{label} {part}" for label, part in document_words(value, producers).items())
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            text = f"{len(value):,} of them"
        else:
            text = value_words(name, format_value_for_people(value), producers)
        rows[VERDICTS.get(name) or format_column_label(name)] = _HASH.sub("", text)
    return rows


def format_value_for_people(value: object) -> str:
    """A value of a column as a person reads it."""
    if isinstance(value, datetime):
        return time_words(value.isoformat())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(format_value_for_people(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else "unknown" if value is None else str(value)
