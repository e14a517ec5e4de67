"""The words of the commands that pages and programs may start, and what a page shows of a plan."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.export import TASK_SOURCES, TaskSource
from ares_app.server.jobs import Job, start_command

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.settings import Settings
    from ares.store import Stores

# Words that end a plan: what they would do is printed, and nothing is done.
PLAN = "--dry-run"


def describe_plan(document: Json) -> list[dict[str, Json]]:
    """Rows of a plan: of `ingest` a row for each dataset, of `annotate` one for each annotator with its price."""
    if isinstance(document, Mapping) and "datasets" in document:
        names = ("dataset", "format", "episodes", "files", "MB", "path", "error")
        rows = [
            {**row, "MB": row.get("bytes") and round(row["bytes"] / 1e6, 1)}
            for row in _list_mappings(document["datasets"])
        ]
        return [{name: row.get(name) for name in names} for row in rows]
    plans = document if isinstance(document, list) else [document]
    return [
        {
            "annotator": row["annotator"],
            "to do": row.get("planned"),
            "done before": row.get("already"),
            "calls": row.get("calls"),
            "tokens in": row.get("tokens_in"),
            "tokens out": row.get("tokens_out"),
            "US dollars": row.get("usd"),
        }
        for row in _list_mappings(plans)
        if "annotator" in row
    ]


def _list_mappings(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def make_ingest_words(settings: Settings, source: str, dataset: str = "", format: str = "") -> list[str]:
    """The words of `ares ingest`.

    Args:
        settings: Settings with the folders below which pages and programs may read.
        source: A path below one of these, or from the root on.
        dataset: Name of the dataset, or "" for that of its folder.
        format: Its format, or "" for what its files say.

    Raises:
        RequestError: No folder is allowed, the source is outside of all, or there is none.
    """
    path = _find_source(source, [Path(folder).expanduser() for folder in settings.source_dirs])
    return ["ingest", str(path), *make_option("dataset", dataset), *make_option("format", format)]


def make_annotate_words(
    names: Sequence[str], where: str = "", limit: int | None = None, retry_failed: bool = False
) -> list[str]:
    """The words of `ares annotate`. Models are those of the settings: whoever asks names no server for our key.

    Raises:
        RequestError: There is no annotator of a name, or none is named.
    """
    from ares.registry import annotators

    if not names:
        raise RequestError("no annotator is named", f"there are: {', '.join(sorted(annotators.names()))}")
    for name in names:
        annotators.get(name)
    options = [*make_option("where", where), *make_option("limit", limit)]
    return ["annotate", *names, *options, *(["--retry-failed"] if retry_failed else [])]


def make_check_words(instructions: bool = False) -> list[str]:
    """The words of `ares check`, or of `ares audit instructions`."""
    return ["audit", "instructions"] if instructions else ["check"]


def make_export_words(
    label: str,
    folder: Path,
    format: str,
    task: TaskSource,
    min_precision: float | None = None,
    *,
    refuted: bool = False,
    signals: str = "",
) -> list[str]:
    """The words of `ares export`.

    Args:
        label: Label of the set.
        folder: Folder to write.
        format: Name of the exporter.
        task: What the task of every episode is.
        min_precision: Share of true captions that people must have shown; None for none.
        refuted: Whether captions are taken also where a refuted judge accepts them.
        signals: Names of further signals with commas; "" for those that all episodes have.
    """
    options = [
        *make_option("task", "" if task == TASK_SOURCES[0] else task),
        *make_option("min-precision", min_precision),
        *(["--refuted"] if refuted else []),
        *make_option("signals", signals),
    ]
    return ["export", label, str(folder), f"--format={format}", *options]


def make_option(name: str, value: object) -> list[str]:
    """An option with its value in one word, so that no value is read as an option. Nothing without a value."""
    return [] if value in (None, "", 0) else [f"--{name}={value}"]


def resume_job(stores: Stores, job: Job, person: str) -> Job:
    """Start a job again: it goes on with what is open. Of a plan, start what was planned.

    Raises:
        RequestError: It runs.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_command(stores, [word for word in job.words if word != PLAN], person, job.subject)


def _find_source(typed: str, folders: Sequence[Path]) -> Path:
    """The file or folder that a person typed, below one of the folders that the owner of the server allows.

    Args:
        typed: A path below a folder, or from the root on.
        folders: The allowed folders.

    Raises:
        RequestError: No folder is allowed, the path is outside of all, or there is none.
    """
    if not folders:
        raise RequestError("pages may read no folder", "start the server with ARES_SOURCE_DIRS=/data")
    roots = [folder.resolve() for folder in folders]
    allowed = [path for root in roots if (path := (root / typed).resolve()).is_relative_to(root)]
    if not allowed:
        names = ", ".join(map(str, folders))
        raise RequestError(
            "the source is outside of the allowed folders", f"{typed[:200]!r}; they are {names}"
        )
    # Not by the method of a path, which raises for a name that is too long.
    existing = [path for path in allowed if os.path.exists(path)]  # noqa: PTH110
    if not existing:
        raise RequestError("there is no such file or folder", f"{typed[:200]!r}")
    return existing[0]
