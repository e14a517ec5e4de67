"""Reads JSON objects and JSON lines of datasets; what is wrong becomes a SourceError that names the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ares.errors import SourceError
from ares.input import parse_json, read_input
from ares.io import describe_os_error


def read_json_object(path: Path, parse: Callable[[bytes], Any] | None = None) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: Path or URL.
        parse: Parses its bytes; None for `ares.input.parse_json`.

    Raises SourceError when the file cannot be read, is nested too deeply, or holds no JSON object.
    """
    try:
        document = (parse or partial(parse_json, where=str(path)))(read_input(str(path)))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {describe_os_error(error)}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(f"{path.name} is not a JSON object", f"{path}: {type(document).__name__}")
    return document


def parse_json_lines(
    lines: Iterable[bytes], path: Path, parse: Callable[[bytes], Any] | None = None
) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """For each line that is not blank, its number from 1 and its object, or a SourceError about the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        try:
            document = (parse or partial(parse_json, where=location))(line)
        except SourceError as error:
            yield number, SourceError(error.reason, location)
            continue
        except (ValueError, RecursionError) as error:
            yield number, SourceError("metadata line is not JSON", f"{location}: {error}")
            continue
        if isinstance(document, dict):
            yield number, document
        else:
            yield (
                number,
                SourceError("metadata line is not a JSON object", f"{location}: {type(document).__name__}"),
            )
