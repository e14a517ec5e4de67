"""Paths and URLs that are written to: which there are, and files that appear at them whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ares.errors import RequestError
from ares.io.paths_and_urls import (
    describe_os_error,
    expanded_path,
    is_url,
    local_output,
    parse_path,
    translate_remote_errors,
)

_READ_ONLY = ("http", "https")


def output_path(path: str | os.PathLike[str]) -> Path:
    """The path or URL of a file or folder that is to be written, with "~" expanded.

    Raises RequestError for a URL of an unknown kind, of a web server, or without one of its slashes.
    """
    text = os.fspath(path) if is_url(str(path)) else expanded_path(path)
    if not is_url(text):
        return local_output(text)
    if text.partition("://")[0] in _READ_ONLY:
        raise RequestError(
            "a web server cannot be written to", f"{text!r}; name s3://, gs:// or a local path"
        )
    return parse_path(text)


@contextmanager
def output_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a local path to write a file to, and files beside it; those of a URL are then uploaded, this one last.

    Raises RequestError as `output_path`, and for a URL that cannot be written.
    """
    target = output_path(path)
    if isinstance(target, Path):
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="ares-output-") as folder:
        local = Path(folder) / target.name
        yield local
        try:
            with translate_remote_errors(str(target)):
                for file in sorted(local.parent.iterdir(), key=lambda file: file == local):
                    beside = target.with_name(file.name)
                    beside.fs.put_file(str(file), beside.path)
        except OSError as error:
            raise RequestError(
                "the file cannot be written", f"{target}: {describe_os_error(error)}"
            ) from None
