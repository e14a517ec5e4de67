"""Reads baselines, which users may have edited: the first mistake is an error that names its line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ares.errors import RequestError
from ares.io import describe_os_error
from ares.quality.ci.baseline import Baseline, BaselineKey


class _BaselineEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dataset: str
    code: str
    episode: str
    signal: str
    dimension: str


class _BaselineDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1]
    findings: list[_BaselineEntry]


def read_baseline(path: str) -> Baseline:
    """The keys of a file. Raises RequestError when it cannot be read or is no baseline."""
    try:
        document = _BaselineDocument.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise RequestError("the baseline cannot be read", f"{path}: {describe_os_error(error)}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        detail = f"{path}: {where}: {first['msg']}; --write-baseline writes one"
        raise RequestError("the file is no baseline", detail) from None
    return frozenset(BaselineKey(**entry.model_dump()) for entry in document.findings)
