"""Path templates of datasets, with `{name}` and `{name:0Nd}` as their only placeholders."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ares.errors import SourceError
from ares.input.files import check_relative_path

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::(0?)([0-9]{0,2})d?)?\}")
_MAX_WIDTH = 20
_MAX_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A path relative to a dataset, such as "data/chunk-{chunk:03d}/episode_{episode:06d}.parquet".

    Attributes:
        text: The template.
        names: Names of its placeholders, in order, with repetitions.
    """

    text: str
    names: tuple[str, ...]

    def fill(self, **values: int | str) -> str:
        """The path for the values, which stays inside the dataset.

        Raises SourceError where a placeholder has no value, a width is for a text, or the path leads out.
        """

        def replace(match: re.Match[str]) -> str:
            name, zero, width = match[1], match[2] or "", match[3] or ""
            if name not in values:
                raise SourceError("path template has an unknown placeholder", f"{self.text!r}: {name!r}")
            value = values[name]
            if isinstance(value, str):
                if width:
                    raise SourceError("path template gives a width for a text", f"{self.text!r}: {name!r}")
                return value
            return str(value).rjust(int(width or 0), "0" if zero else " ")

        path = _PLACEHOLDER.sub(replace, self.text)
        return check_relative_path(path, f"path template {self.text!r}")


def parse_path_template(text: object, where: str) -> PathTemplate:
    """The template of a text in the metadata of a dataset; never `str.format`, whose fields reach any attribute.

    Args:
        text: The template, as metadata gives it.
        where: File that gives it, for messages.

    Raises:
        SourceError: It is no text, is too long, holds braces other than the two kinds of placeholders, or leads out
            of the dataset.
    """
    if not isinstance(text, str) or not text or len(text) > _MAX_CHARACTERS:
        raise SourceError("path template is not a short text", f"{where}: {str(text)[:100]!r}")
    rest = _PLACEHOLDER.sub("", text)
    widths = [int(match[3]) for match in _PLACEHOLDER.finditer(text) if match[3]]
    if "{" in rest or "}" in rest or any(width > _MAX_WIDTH for width in widths):
        raise SourceError(
            "path template is not understood", f"{where}: {text!r}; use {{name}} or {{name:06d}}"
        )
    check_relative_path(_PLACEHOLDER.sub("0", text), where)
    return PathTemplate(text, tuple(match[1] for match in _PLACEHOLDER.finditer(text)))
