"""Baselines: findings that are known and accepted, as a JSON document with a line for each, to be kept beside code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ares.errors import RequestError
from ares.io import describe_os_error
from ares.quality.finding import QualityFinding

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
