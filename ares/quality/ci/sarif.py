"""Findings as SARIF 2.1.0, the format by which code scanning takes the results of tools.

Specification: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.io import describe_os_error
from ares.quality.catalogue import CODES, CheckCode
from ares.quality.ci.baseline import baseline_key

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.quality.report import CheckReport, CodeCount, DatasetCheck, ListedFinding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"fault": "error", "information": "note"}


def write_sarif(path: str, report: CheckReport) -> None:
    """Write the findings that a report lists. Raises RequestError when the file cannot be written."""
    try:
        Path(path).write_text(json.dumps(sarif_log(report), indent=1, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise RequestError(
            "the SARIF file cannot be written", f"{path}: {describe_os_error(error)}"
        ) from None


def sarif_log(report: CheckReport) -> dict[str, Json]:
    """The log: one run, a rule for every code, and a result for every finding that the report lists."""
    from ares import __version__

    driver: Json = {
        "name": "ares check",
        "version": __version__,
        "rules": [_rule(check) for check in CODES.values()],
    }
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [_invocation(report)],
        "results": list(_results(report)),
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(check: CheckCode) -> Json:
    rule: dict[str, Json] = {
        "id": check.code,
        "name": check.name,
        "shortDescription": {"text": check.meaning},
        "help": {"text": f"{check.remedy}; see {check.page}"},
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
    }
    # The standard allows no relative address here.
    return {**rule, "helpUri": check.page} if "://" in check.page else rule


def _invocation(report: CheckReport) -> Json:
    """What could not be read is no result of a rule, but a notification of the run."""
    failures = [f"{path}: {reason}" for path, reason in report.failed.items()]
    failures += [
        f"{dataset.path}: {dataset.num_failed} records not read: {dataset.first_failure}"
        for dataset in report.datasets
        if dataset.num_failed
    ]
    notifications: list[Json] = [{"level": "error", "message": {"text": text}} for text in failures]
    return {"executionSuccessful": not failures, "toolExecutionNotifications": notifications}


def _results(report: CheckReport) -> Iterator[Json]:
    numbers = {code: number for number, code in enumerate(CODES)}
    for dataset in report.datasets:
        for count in dataset.counts:
            for listed in count.worst:
                yield _result(dataset, count, listed, numbers[count.code])


def _result(dataset: DatasetCheck, count: CodeCount, listed: ListedFinding, rule: int) -> Json:
    finding = listed.finding
    dimension = f" of {finding.dimension}" if finding.dimension else ""
    meaning = f"{CODES[count.code].meaning}{dimension}, at {finding.seconds:g} s, size {finding.size:g}"
    return {
        "ruleId": count.code,
        "ruleIndex": rule,
        "level": _LEVELS[count.severity],
        "message": {"text": f"{listed.key}: {meaning}. {count.remedy}"},
        "locations": [_location(dataset, listed)],
        "partialFingerprints": {"finding/v1": "/".join(baseline_key(dataset.dataset, listed.key, finding))},
        "properties": {"episode_id": listed.episode_id, **finding.to_json()},
    }


def _location(dataset: DatasetCheck, listed: ListedFinding) -> Json:
    """The file of the episode; code scanning asks for a line, and a data file has none but the first."""
    path = listed.source or dataset.path
    names = (dataset.dataset, listed.key, listed.finding.signal, listed.finding.dimension)
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": "/".join(name for name in names if name)}],
    }


def _uri(path: str) -> str:
    """Relative to the working directory below it, as code scanning matches files; else absolute."""
    from urllib.parse import quote

    if "://" in path:
        return path
    absolute, folder = Path(path).absolute(), Path.cwd()
    return quote(str(absolute.relative_to(folder))) if absolute.is_relative_to(folder) else absolute.as_uri()
