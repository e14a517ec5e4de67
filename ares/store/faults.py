"""Faults: what is wrong with a filter, in words, with the place where it stands and the columns that come closest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher, get_close_matches

from ares.errors import FilterError

# What Lance adds around the cause: kinds of error, the statement it made up, places in its source.
_NOISE = (
    re.compile(r"(Invalid user input|Invalid input|LanceError\(\w+\)|Error during planning|Schema error): ?"),
    re.compile(r",? ?\S*\.(rs|cargo)\S*:\d+:\d+"),
    re.compile(r"Error (parsing|tokenizing) statement: "),
    re.compile(r" at Line: \d+, Column: \d+"),
)
_UNKNOWN_COLUMN = re.compile(r'No field named "?([^\s".]+)"?')
_MISFIT = re.compile(r"Received literal (\w+)\((.*)\) and could not convert to literal of type '(\w+)")
_UNKNOWN_FUNCTION = re.compile(r"Invalid function '(\w+)'")
_SYNTAX = re.compile(r"\((?:sql parser error: )?([^()]*, found: (.*)|Unterminated.*)\)$", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
# Lance reads a condition up to its first ';' and forgets the rest, and panics at a placeholder; after a comment the
# filter of a page and that of a person could not be joined.
_FORBIDDEN = re.compile(r"[;?$]|--|/\*")
# Their answer changes from one run to the next, so that what they choose could not be chosen again.
_FICKLE = re.compile(r"\b(random|uuid|_rowid|_rowaddr)\b", re.IGNORECASE)
_KINDS = {"Utf8": "text", "Int64": "a whole number", "Float64": "a number", "Boolean": "true or false"}
_KINDS |= {"Timestamp": "a time such as TIMESTAMP '2026-11-21'"}
_MOST_COLUMNS = 40


def forbidden(where: str) -> FilterError | None:
    """What no filter may hold, whether or not Lance would read it."""
    bare = _bare(where)
    if found := _FORBIDDEN.search(bare):
        said = "a filter is one condition without ';', '?', '$' and comments"
        return _error(where, said, found.start())
    if found := _FICKLE.search(bare):
        return _error(
            where,
            f"{found[0]!r} cannot stand in a filter: it changes from one run to the next",
            found.start(),
        )
    depth = 0
    for place, sign in enumerate(bare):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            # Lance would forget everything from here on.
            return _error(where, "this ')' closes nothing", place)
    return None


def explain(where: str, error: Exception, columns: Collection[str]) -> FilterError:
    """The error for a filter that cannot be planned or run.

    Args:
        where: The filter, as it was given.
        error: What Lance says of it.
        columns: The columns there are, with their types where they are a mapping.
    """
    there = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    cause = _cause(error)
    said, place = (
        _unknown_column(where, cause, there)
        or _misfit(where, cause, there)
        or _misread(where, cause)
        or (cause[:200], None)
    )
    closest = _closest(cause, there)
    return _error(where, f"{said}; there are the columns {', '.join(closest)}" if closest else said, place)


def _cause(error: Exception) -> str:
    cause = " ".join(str(error).split())
    for noise in _NOISE:
        cause = noise.sub("", cause)
    return cause.strip(" .,")


def _unknown_column(where: str, cause: str, columns: Mapping[str, str]) -> tuple[str, int | None] | None:
    if not (found := _UNKNOWN_COLUMN.search(cause)):
        return None
    name = found[1]
    near = get_close_matches(name.lower(), columns, n=1)
    advice = f", did you mean {near[0]!r}?" if near else ""
    return f"No field named {name}{advice}", _only(where, rf"\b{re.escape(name)}\b")


def _misfit(where: str, cause: str, columns: Mapping[str, str]) -> tuple[str, int | None] | None:
    if not (found := _MISFIT.search(cause)):
        return None
    given, value, wanted = found.groups()
    written = f"'{value[1:-1]}'" if given == "Utf8" else value
    place = where.find(written)
    before = re.findall(r"\w+", _bare(where[: max(place, 0)]))
    column = next((word for word in reversed(before) if word in columns), "")
    told = f"{column} is {columns[column] or wanted}" if column else f"the column is {wanted}"
    said = f"{written} does not fit: {told}, to be compared with {_KINDS.get(wanted, wanted)}"
    return said, place if place >= 0 else None


def _misread(where: str, cause: str) -> tuple[str, int | None] | None:
    if found := _UNKNOWN_FUNCTION.search(cause):
        return f"there is no function {found[1]!r}", _only(where, rf"\b{found[1]}\b")
    if not (found := _SYNTAX.search(cause)):
        return None
    if found[2] is None:
        return found[1], _unterminated(where)
    # The filter was read in parentheses, so that the one that closes them is its end.
    if found[2].strip() in ("EOF", ")") and ")" not in _bare(where):
        return re.sub(r"found: .*", "found: the end", found[1]), len(where)
    return found[1], _only(where, re.escape(found[2].strip())) if found[2].strip() else None


def _unterminated(where: str) -> int | None:
    rest = _QUOTED.sub(lambda found: " " * len(found[0]), where)
    return next((place for place, sign in enumerate(rest) if sign in "'\"`"), None)


def _only(where: str, pattern: str) -> int | None:
    """Where the pattern stands outside quotes, when it stands there once."""
    found = [match.start() for match in re.finditer(pattern, _bare(where), re.IGNORECASE)]
    return found[0] if len(found) == 1 else None


def _bare(where: str) -> str:
    """The filter with what is quoted as spaces; names in backticks stay."""
    return _QUOTED.sub(lambda found: found[0] if found[0][0] == "`" else " " * len(found[0]), where)


def _closest(cause: str, columns: Mapping[str, str]) -> list[str]:
    found = _UNKNOWN_COLUMN.search(cause)
    if found is None:
        return sorted(columns)
    name = found[1].lower()
    ordered = sorted(columns, key=lambda each: (-SequenceMatcher(None, name, each).ratio(), each))
    return [*ordered[:_MOST_COLUMNS], *(["..."] if len(ordered) > _MOST_COLUMNS else [])]


def _error(where: str, said: str, place: int | None) -> FilterError:
    return FilterError("the filter cannot be read", f"{where!r}: {said}", where=where, place=place)
