"""Jobs that are a command of ARES: how they start, what they print, and what a page shows of them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.server.jobs import Job, JobProgress, find_job_path, start_job, write_job
from ares.console import count_of
from ares.episode import describe_seconds
from ares.errors import RequestError
from ares.jobs import watch_progress

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.settings import Settings
    from ares.store import Stores

# What a page shows of the lines that a command has printed.
_LAST_LINES, _MOST_BYTES = 8, 20_000
# Exit statuses of a command that has ended by itself: all is done, or some items failed.
_ENDED = (0, 1)
# From here on, that of one that a signal has stopped.
_SIGNALLED = 128
# Words that end a plan: what they would do is printed, and nothing is done.
PLAN = "--dry-run"


def start_command(stores: Stores, words: Sequence[str], person: str) -> Job:
    """Start what `ares WORDS` does, in a process of its own.

    Args:
        stores: Stores of the workspace.
        words: The command and its arguments; what a person typed is a value of an option, or a path.
        person: Who starts it.

    Raises:
        RequestError: The same command runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_job(
        stores, "command", subject=words[0], name=shlex.join(words), total=1,
        arguments={"words": list(words)}, person=person,
    )  # fmt: skip


def run_command_job(path: Path, job: Job, location: str) -> None:
    """Run the command of a job in this process, and write down how it ends.

    What it prints is in two files beside that of the job: messages in `.log`, its document in `.out`.

    Args:
        path: The file of the job.
        job: The job.
        location: The workspace.
    """
    from ares.registry import operations

    output = path.with_suffix(".out")
    for descriptor, target in ((1, output), (2, path.with_suffix(".log"))):
        with target.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    progress = JobProgress(path, job)
    watch_progress(progress.tell)
    status = operations.get("command")([*job.arguments["words"], "--workspace", location, "--json"])
    sys.stdout.flush()
    document = _read_document(output)
    job = progress.job
    if status >= _SIGNALLED:
        write_job(path, job, state="stopped")
        return
    if status in _ENDED:
        write_job(path, job, state="finished", report={"status": status, "document": document})
        return
    error = document.get("error", {}) if isinstance(document, dict) else {}
    reason = str(error.get("reason") or "the command failed")
    detail = str(error.get("detail") or "\n".join(read_last_lines(path)[-1:]))
    write_job(path, job, state="failed", reason=reason, detail=detail)


def _read_document(path: Path) -> Json:
    try:
        document: Json = json.loads(path.read_text())
    except ValueError:
        return {}
    return document


def read_last_lines(path: Path) -> list[str]:
    """The last lines that the command of a job has printed; none before the first.

    Args:
        path: The file of the job.
    """
    try:
        with path.with_suffix(".log").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    # A line that a progress bar has drawn over ends with a carriage return.
    lines = [line.rpartition("\r")[2] or line.strip("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip()][-_LAST_LINES:]


def last_lines_of(stores: Stores, job: Job) -> list[str]:
    """The last lines that a job has printed."""
    return read_last_lines(find_job_path(stores, job.kind, job.name))


def describe_plan(document: Json) -> list[dict[str, Json]]:
    """Rows of a plan: of `ingest` a row for each dataset, of `annotate` one for each annotator with its price."""
    if isinstance(document, Mapping) and "datasets" in document:
        names = ("dataset", "format", "episodes", "files", "bytes", "path", "error")
        return [
            {**{name: row.get(name) for name in names}, "time": _describe_time(row)}
            for row in _list_mappings(document["datasets"])
        ]
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
            "time": _describe_time(row),
        }
        for row in _list_mappings(plans)
        if "annotator" in row
    ]


def _describe_time(row: Mapping[str, Any]) -> str:
    """The time that earlier jobs let expect, and of how many items these were."""
    if row.get("seconds") is None:
        return "unknown: no earlier job to measure by"
    return (
        f"{describe_seconds(row['seconds'])}, by {count_of(row['timed'], 'item', comma=True)} of earlier jobs"
    )


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
    return ["ingest", str(path), *_make_option("dataset", dataset), *_make_option("format", format)]


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
    options = [*_make_option("where", where), *_make_option("limit", limit)]
    return ["annotate", *names, *options, *(["--retry-failed"] if retry_failed else [])]


def make_check_words(instructions: bool = False) -> list[str]:
    """The words of `ares check`."""
    return ["check", *(["--instructions"] if instructions else [])]


def _make_option(name: str, value: object) -> list[str]:
    """An option with its value in one word, so that no value is read as an option. Nothing without a value."""
    return [] if value in (None, "", 0) else [f"--{name}={value}"]


def resume_job(stores: Stores, job: Job, person: str) -> Job:
    """Start a job again: it goes on with what is open. Of a plan, start what was planned.

    Raises:
        RequestError: It runs.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    if job.kind == "command":
        return start_command(stores, [word for word in job.arguments["words"] if word != PLAN], person)
    return start_job(
        stores, job.kind, subject=job.subject, name=job.name, total=job.total,
        arguments=job.arguments, person=person,
    )  # fmt: skip


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
