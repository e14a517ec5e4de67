"""Faults: what is wrong with a filter, in words, with the place where it stands and the columns that come closest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import SequenceMatcher, get_close_matches

from ares.errors import FilterError
from ares.store.pointing import bare, only, place, quoted, unterminated

# What Lance adds around the cause: kinds of error, the statement it made up, places in its source.
_NOISE = (
    re.compile(r"(Invalid user input|Invalid input|LanceError\(\w+\)|Error during planning|Schema error): ?"),
    re.compile(r",? ?\S*\.(rs|cargo)\S*:\d+:\d+"),
    re.compile(r"Error (parsing|tokenizing) statement: "),
    re.compile(r"Error (optimizing sql filter:|resolving filter expression) ?"),
    re.compile(r"External error: Query Execution error: Error applying filter expression to batch: "),
    re.compile(r"(Query )?Execution error: "),
    re.compile(r" at Line: \d+, Column: \d+"),
)
_UNKNOWN_COLUMN = re.compile(r'No field named "?([^\s".]+)"?')
_MISFIT = re.compile(r"Received literal (\w+)\((.*)\) and could not convert to literal of type '(\w+)")
_UNKNOWN_FUNCTION = re.compile(r"Invalid function '(\w+)'")
_SYNTAX = re.compile(
    r"\((?:sql parser error: )?(Expected: .*, found: (.*)|Unterminated.*|Expected close.*)\)$", re.DOTALL
)
# Lance reads a condition up to its first ';' and forgets the rest, and panics at a placeholder (?, $1, :name); after
# a comment the filter of a page and that of a person could not be joined.
_FORBIDDEN = re.compile(r"[;?$]|(?<!:):(?!:)|--|/\*")
# Their answer changes from one run to the next, so that what they choose could not be chosen again.
_FICKLE = re.compile(
    r"\b(random|uuid|_rowid|_rowaddr|_rowoffset|current_(?:date|time|timestamp)|(?:now|today)(?=\s*\())\b",
    re.IGNORECASE,
)
# It equals nothing, and DataFusion folds lists that have it in ways that differ from plan to plan.
_NULL = re.compile(r"\bIS\s+(?:NOT\s+)?NULL\b|\b(?P<lone>NULL)\b", re.IGNORECASE)
# Lance ends with a panic at national text (N''); no other prefix says what plain text does not.
_PREFIXED = re.compile(r"(?<!\w)(?:[A-Z]|U&)$", re.IGNORECASE)
_KINDS = {"Utf8": "text", "Int64": "a whole number", "Float64": "a number", "Boolean": "true or false"}
_KINDS |= {"Timestamp": "a time such as TIMESTAMP '2026-11-21'"}
_MOST_COLUMNS = 40


def forbidden(where: str) -> FilterError | None:
    """What no filter may hold, whether or not Lance would read it."""
    text = bare(where)
    if found := _FORBIDDEN.search(text):
        said = "a filter is one condition without ';', '?', '$', ':' and comments"
        return _error(where, said, found.start())
    if found := _FICKLE.search(text):
        return _error(
            where,
            f"{found[0]!r} cannot stand in a filter: it changes from one run to the next",
            found.start(),
        )
    for found in _NULL.finditer(text):
        if found["lone"]:
            said = "NULL equals nothing: it stands only in IS NULL and IS NOT NULL"
            return _error(where, said, found.start("lone"))
    for each in quoted(where):
        if each[0][0] != "`" and (prefix := _PREFIXED.search(where, max(0, each.start() - 3), each.start())):
            return _error(where, "text in quotes stands without a letter before it", prefix.start())
    return _unbalanced(where, text)


def _unbalanced(where: str, text: str) -> FilterError | None:
    opened: list[int] = []
    for at, sign in enumerate(text):
        if sign == "(":
            opened.append(at)
        elif sign == ")" and not opened:
            # Lance would forget everything from here on.
            return _error(where, "this ')' closes nothing", at)
        elif sign == ")":
            opened.pop()
    if opened and unterminated(where) is None:
        return _error(where, "this '(' is never closed", opened[-1])
    return None


def mistaken(where: str, columns: Collection[str]) -> FilterError | None:
    """A column in double quotes, which Lance takes for a text that is the same for every row."""
    for each in quoted(where):
        name = each[0][1:-1]
        if each[0][0] == '"' and name in columns:
            said = f"{each[0]} in double quotes is a text; the column is {name}, without quotes"
            return _error(where, said, each.start())
    return None


def explain(
    where: str, error: Exception, columns: Collection[str], plan: Callable[[str], None] | None = None
) -> FilterError:
    """The error for a filter that cannot be planned or run.

    Args:
        where: The filter, as it was given.
        error: What Lance says of it.
        columns: The columns there are, with their types where they are a mapping.
        plan: Raises what Lance says of a part of it, when it is planned; without it the fault was met by running.
    """
    there = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    cause = _cause(where, error)

    def wrong(part: str) -> str:
        try:
            if plan and not forbidden(part):
                plan(part)
        except (ValueError, RuntimeError, OSError) as other:
            return _syntax(_cause(part, other))
        return ""

    said, at = (
        _unknown_column(where, cause, there)
        or _misfit(where, cause, there)
        or _misread(where, cause)
        or (cause, None)
    )
    if at is None:
        at = place(where, _syntax(cause), wrong)
    said = said[:200]
    closest = _closest(cause, there)
    return _error(where, f"{said}; there are the columns {', '.join(closest)}" if closest else said, at)


def _cause(where: str, error: Exception) -> str:
    cause = " ".join(str(error).split())
    # Lance repeats the filter, in the parentheses that it was planned in; out first, as it may be long.
    for said in (f"SELECT 1 FROM t WHERE ({where}\n) ", f"({where}\n) ", f"({where}\n): "):
        cause = cause.replace(" ".join(said.split()), "", 1)
    for noise in _NOISE:
        cause = noise.sub("", cause)
    return " ".join(cause.split()).strip(" .,:")


def _syntax(cause: str) -> str:
    """What the parser says, without what it says it of."""
    found = _SYNTAX.search(cause)
    return found[1] if found else cause


def _unknown_column(where: str, cause: str, columns: Mapping[str, str]) -> tuple[str, int | None] | None:
    if not (found := _UNKNOWN_COLUMN.search(cause)):
        return None
    name = found[1]
    near = get_close_matches(name.lower(), columns, n=1)
    advice = f", did you mean {near[0]!r}?" if near else ""
    return f"No field named {name}{advice}", only(where, rf"\b{re.escape(name)}\b")


def _misfit(where: str, cause: str, columns: Mapping[str, str]) -> tuple[str, int | None] | None:
    if not (found := _MISFIT.search(cause)):
        return None
    given, value, wanted = found.groups()
    written = f"'{value[1:-1]}'" if given == "Utf8" else value
    at = _stands(where, written)
    before = re.findall(r"\w+", bare(where[:at]))
    column = next((word for word in reversed(before) if word in columns), "")
    told = f"{column} is {columns[column] or wanted}" if column else f"the column is {wanted}"
    said = f"{written} does not fit: {told}, to be compared with {_KINDS.get(wanted, wanted)}"
    return said, at


def _stands(where: str, written: str) -> int | None:
    """Where a text or a number stands, when it stands there once."""
    if written[0] != "'":
        return only(where, rf"(?<![\w.]){re.escape(written)}(?![\w.])")
    places = [each.start() for each in quoted(where) if each[0] == written]
    return places[0] if len(places) == 1 else None


def _misread(where: str, cause: str) -> tuple[str, int | None] | None:
    if found := _UNKNOWN_FUNCTION.search(cause):
        return f"there is no function {found[1]!r}", only(where, rf"\b{found[1]}\b")
    if not (found := _SYNTAX.search(cause)):
        return None
    if found[2] is None:
        return found[1], unterminated(where)
    # The filter was read in parentheses, so that the one that closes them is its end.
    if found[2].strip() in ("EOF", ")") and ")" not in bare(where):
        return re.sub(r"found: .*", "found: the end", found[1]), len(where)
    return found[1], None


def _closest(cause: str, columns: Mapping[str, str]) -> list[str]:
    found = _UNKNOWN_COLUMN.search(cause)
    if found is None:
        return sorted(columns)
    name = found[1].lower()
    ordered = sorted(columns, key=lambda each: (-SequenceMatcher(None, name, each).ratio(), each))
    return [*ordered[:_MOST_COLUMNS], *(["..."] if len(ordered) > _MOST_COLUMNS else [])]


def _error(where: str, said: str, place: int | None) -> FilterError:
    return FilterError("the filter cannot be read", f"{where!r}: {said}", where=where, place=place)
