"""Findings for continuous integration: SARIF, GitHub annotations, and baselines of accepted ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.checks import CODES, CheckCode, QualityFinding
from ares.console import count_of
from ares.errors import RequestError
from ares.io import describe_os_error

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.reports.finding_counts import CheckReport, DatasetCheck, FindingCodeCount, ListedFinding


VERSION = 1


class BaselineKey(NamedTuple):
    """What tells a finding from others, in whatever folder the dataset lies and however large the fault is.

    Attributes:
        dataset: Name of the dataset.
        code: Code of the check.
        episode: Split and key of the episode in its source, joined by "/".
        signal: Signal of the finding.
        dimension: Dimension of the finding.
    """

    dataset: str
    code: str
    episode: str
    signal: str
    dimension: str


Baseline = frozenset[BaselineKey]


def baseline_key(dataset: str, episode: str, finding: QualityFinding) -> BaselineKey:
    """The key of a finding."""
    return BaselineKey(dataset, finding.code, episode, finding.signal, finding.dimension)


@dataclass(slots=True, kw_only=True)
class BaselineWriter:
    """Collects the keys of findings, about 300 bytes each, and writes them.

    Attributes:
        path: File to write; an existing one is replaced.
        keys: Keys so far.
    """

    path: str
    keys: set[BaselineKey] = field(default_factory=set)

    def add(self, keys: Iterable[BaselineKey]) -> None:
        """Collect keys."""
        self.keys.update(keys)

    def write(self) -> None:
        """Write the file, sorted, so that two can be compared. Raises RequestError when it cannot be written."""
        lines = [json.dumps(key._asdict(), ensure_ascii=False) for key in sorted(self.keys)]
        text = f'{{"version": {VERSION}, "findings": [\n' + ",\n".join(lines) + "\n]}\n"
        try:
            Path(self.path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise RequestError(
                "the baseline cannot be written", f"{self.path}: {describe_os_error(error)}"
            ) from None


class _BaselineDocument(NamedTuple):
    version: Literal[1]
    findings: list[BaselineKey]


def read_baseline(path: str) -> Baseline:
    """The keys of a file. Raises RequestError when it cannot be read or is no baseline."""
    from pydantic import TypeAdapter, ValidationError

    try:
        document = TypeAdapter(_BaselineDocument).validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RequestError("the baseline cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        detail = f"{path}: {where}: {first['msg']}; --write-baseline writes one"
        raise RequestError("the file is no baseline", detail) from None
    return frozenset(document.findings)


def github_annotations(report: CheckReport) -> Iterator[str]:
    """A line for each dataset and code, and for what could not be read: GitHub shows ten of a kind per step."""
    for dataset in report.datasets:
        for count in dataset.counts:
            yield _finding_line(dataset, count)
        if dataset.num_failed:
            message = f"{dataset.dataset}: {count_of(dataset.num_failed, 'record')} not read: {dataset.first_failure}"
            yield _workflow_command("error", dataset.path, "not read", message)
    for path, reason in report.failed.items():
        yield _workflow_command("error", path, "not read", reason)
    for file in report.damaged_files:
        yield _workflow_command("error", file.path, "not read", file.detail)


def _finding_line(dataset: DatasetCheck, count: FindingCodeCount) -> str:
    worst = count.worst[0]
    dimension = f" of {worst.finding.dimension}" if worst.finding.dimension else ""
    message = (
        f"{dataset.dataset}: {count_of(count.num_episodes, 'episode')}; worst: {worst.key}{dimension} at "
        f"{worst.finding.seconds:g} s, size {worst.finding.size:g}. {count.remedy}; see {CODES[count.code].page}"
    )
    level = "error" if count.severity == "fault" else "notice"
    return _workflow_command(level, worst.source or dataset.path, f"{count.code} {count.name}", message)


def _workflow_command(level: str, file: str, title: str, message: str) -> str:
    return (
        f"::{level} file={_escape_property(file)},title={_escape_property(title)}::{_escape_message(message)}"
    )


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")


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
    from importlib.metadata import version

    driver: Json = {
        "name": "ares check",
        "version": version("ares-curation"),
        "rules": [_sarif_rule(check) for check in CODES.values()],
    }
    run: Json = {
        "tool": {"driver": driver},
        "invocations": [_sarif_invocation(report)],
        "results": list(_all_sarif_results(report)),
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_rule(check: CheckCode) -> Json:
    rule: dict[str, Json] = {
        "id": check.code,
        "name": check.name,
        "shortDescription": {"text": check.meaning},
        "help": {"text": f"{check.remedy}; see {check.page}"},
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
    }
    # The standard allows no relative address here.
    return {**rule, "helpUri": check.page} if "://" in check.page else rule


def _sarif_invocation(report: CheckReport) -> Json:
    """What could not be read is no result of a rule, but a notification of the run."""
    failures = [f"{path}: {reason}" for path, reason in report.failed.items()]
    failures += [
        f"{dataset.path}: {count_of(dataset.num_failed, 'record')} not read: {dataset.first_failure}"
        for dataset in report.datasets
        if dataset.num_failed
    ]
    failures += [f"{file.path}: {file.detail}" for file in report.damaged_files]
    notifications: list[Json] = [{"level": "error", "message": {"text": text}} for text in failures]
    return {"executionSuccessful": not failures, "toolExecutionNotifications": notifications}


def _all_sarif_results(report: CheckReport) -> Iterator[Json]:
    numbers = {code: number for number, code in enumerate(CODES)}
    for dataset in report.datasets:
        for count in dataset.counts:
            for listed in count.worst:
                yield _sarif_result(dataset, count, listed, numbers[count.code])


def _sarif_result(dataset: DatasetCheck, count: FindingCodeCount, listed: ListedFinding, rule: int) -> Json:
    finding = listed.finding
    dimension = f" of {finding.dimension}" if finding.dimension else ""
    meaning = f"{CODES[count.code].meaning}{dimension}, at {finding.seconds:g} s, size {finding.size:g}"
    return {
        "ruleId": count.code,
        "ruleIndex": rule,
        "level": _LEVELS[count.severity],
        "message": {"text": f"{listed.key}: {meaning}. {count.remedy}"},
        "locations": [_sarif_location(dataset, listed)],
        "partialFingerprints": {"finding/v1": "/".join(baseline_key(dataset.dataset, listed.key, finding))},
        "properties": {"episode_id": listed.episode_id, **finding.to_json()},
    }


def _sarif_location(dataset: DatasetCheck, listed: ListedFinding) -> Json:
    """The file of the episode; code scanning asks for a line, and a data file has none but the first."""
    path = listed.source or dataset.path
    names = (dataset.dataset, listed.key, listed.finding.signal, listed.finding.dimension)
    return {
        "physicalLocation": {"artifactLocation": {"uri": _file_uri(path)}, "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": "/".join(name for name in names if name)}],
    }


def _file_uri(path: str) -> str:
    """Relative to the working directory below it, as code scanning matches files; else absolute."""
    from urllib.parse import quote

    if "://" in path:
        return path
    absolute, folder = Path(path).absolute(), Path.cwd()
    return quote(str(absolute.relative_to(folder))) if absolute.is_relative_to(folder) else absolute.as_uri()
