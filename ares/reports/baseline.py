"""Baselines: files of findings that are known, which a later check counts apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.checks import QualityFinding
from ares.errors import RequestError, first_fault
from ares.io import describe_os_error

if TYPE_CHECKING:
    pass


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
        detail = f"{path}: {first_fault(error, 'document')}; --write-baseline writes one"
        raise RequestError("the file is no baseline", detail) from None
    return frozenset(document.findings)
