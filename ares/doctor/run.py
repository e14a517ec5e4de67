"""Runs every check of a workspace in order, and repairs what can be repaired without losing data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ares.doctor.checks import (
    Finding,
    check_applied_actions,
    check_duplicates,
    check_failure_log,
    check_media_copies,
    check_purges,
    check_rows,
    check_sets,
    check_temporary_files,
)
from ares.doctor.log_checks import check_index_position, check_values, rebuild_columns
from ares.doctor.sources import RelocationReport, find_source_file_problems, relocate_files
from ares.doctor.vectors import (
    check_interrupted_runs,
    check_leftover_vector_files,
    check_vectors,
    copy_embedded_episodes,
)
from ares.errors import is_disk_full
from ares.media import SOURCE_REMEDIES

if TYPE_CHECKING:
    from ares.store import Stores


def run_checks(stores: Stores, repair: bool = False, rebuild: bool = False) -> list[Finding]:
    """Return what is broken, after waiting for a job that writes.

    Args:
        stores: Stores of the workspace.
        repair: Whether to repair what can be repaired without losing data.
        rebuild: Whether to drop first what the tables show of the log, and to apply all of it.

    Raises:
        StoreError: A store cannot be read or written, or the log has values that no column can show.
    """
    with ExitStack() as stack:
        # A read-only workspace has no writer on this machine to wait for.
        if repair or rebuild or stores.is_writable:
            try:
                stack.enter_context(stores.write_lock("ares doctor"))
            except OSError as error:
                if repair or rebuild or not is_disk_full(error):
                    raise
        if rebuild:
            rebuild_columns(stores)
        findings = list(_check_stores(stores, repair))
    return findings + _check_source_files(stores)


def _check_stores(stores: Stores, repair: bool) -> Iterator[Finding]:
    from ares.store import TempDatabase

    yield from check_temporary_files(stores, repair)
    yield from check_purges(stores, repair)
    position_findings = list(check_index_position(stores, repair))
    yield from position_findings
    yield from check_interrupted_runs(stores, repair)
    yield from check_leftover_vector_files(stores, repair)
    with TempDatabase() as database:
        yield from check_applied_actions(stores, database, repair)
        yield from check_rows(stores, database, repair)
        yield from check_duplicates(stores, repair)
        yield from copy_embedded_episodes(stores, database)
        yield from check_vectors(stores, database, repair)
        # Values are compared only with an index that has applied the whole log.
        if repair or not position_findings:
            yield from check_values(stores)
        yield from check_sets(stores, database, repair)
    yield from check_failure_log(stores, repair)
    yield from check_media_copies(stores, repair)


def _check_source_files(stores: Stores) -> list[Finding]:
    """One finding per reason for which source files are not what was ingested."""
    return [
        Finding(
            check="each source file is where and what it was: " + reason,
            count=problem.count,
            example=problem.first.detail.removesuffix(f"; {SOURCE_REMEDIES.get(reason, '')}"),
            repaired=False,
            remedy=SOURCE_REMEDIES.get(reason, "make the file readable"),
        )
        for reason, problem in sorted(find_source_file_problems(stores).items())
    ]


def relocate_sources(stores: Stores, moves: Sequence[tuple[str, str]]) -> list[Finding]:
    """Rewrite the URIs of source files that were moved; see `ares.doctor.sources.relocate_files`.

    Returns:
        What was rewritten, and what could not be.

    Raises:
        RequestError: A new path does not exist.
    """
    report = relocate_files(stores, moves)
    relocated = _relocation_finding(report)
    if report.refused is None:
        return [relocated]
    refused = Finding(
        check="each source file has the same content at its new path",
        count=report.refused.count,
        example=str(report.refused.first),
        repaired=False,
        remedy="the URIs of these files were not changed",
    )
    return [relocated, refused] if report.moved else [refused]


def _relocation_finding(report: RelocationReport) -> Finding:
    old, new = report.example
    if report.moved:
        example = f"{old} is {new} now"
    else:
        example = "no file that an episode needs has a path that starts like this"
    return Finding(
        check="source files were relocated",
        count=report.moved,
        example=example,
        repaired=bool(report.moved),
        remedy=""
        if report.moved
        else "give the old path as `ares show EPISODE_ID` or `ares doctor` prints it",
    )
