"""Files that are not read, as a few lines of text: those of one kind and reason together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ares.jobs import LeftFile

# Two endings that belong together, as in "x.tar.gz".
_PACKED = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


class _Group(NamedTuple):
    use: str
    suffix: str
    detail: str


def left_lines(left_files: Iterable[LeftFile], limit: int) -> Iterator[str]:
    """One line for each kind of file, use and reason, the most frequent first, with the first file of each.

    Args:
        left_files: The files.
        limit: Lines at most, and one that counts the files that they leave out.
    """
    groups: dict[_Group, list[str]] = {}
    for file in left_files:
        groups.setdefault(_Group(file.use, _suffix(file.path), file.detail), []).append(file.path)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for group, paths in ordered[:limit]:
        yield _line(group, paths)
    rest = sum(len(paths) for _, paths in ordered[limit:])
    if rest:
        yield f"... and {rest} more; --json lists them all"


def _line(group: _Group, paths: list[str]) -> str:
    if len(paths) == 1:
        return f"{group.use}: {paths[0]}: {group.detail}"
    kind = f"{group.suffix} files" if group.suffix else "files"
    return f"{group.use}: {len(paths)} {kind}, the first {paths[0]}: {group.detail}"


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    packed = next((suffix for suffix in _PACKED if name.endswith(suffix)), "")
    stem, dot, suffix = name.rpartition(".")
    return packed or (f"{dot}{suffix}" if stem and dot else "")
