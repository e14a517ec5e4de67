"""Errors of filters: what is wrong, where in the filter, and the columns with the nearest names."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import SequenceMatcher, get_close_matches

from ares.errors import FilterError

# Of a longer filter, the error shows so many characters before and after the fault.
_EXCERPT = 200
_MAX_COLUMNS = 24
# What Lance adds around the cause: kinds of errors, positions in its own source code.
_NOISE = re.compile(
    r"(Invalid user input|Invalid input|LanceError\(\w+\)|Error during planning|Schema error|External error"
    r"|(Query )?Execution error|Internal error|Arrow error|Optimizer rule '\w+' failed|caused by"
    r"|Error (parsing|tokenizing) statement|Error (optimizing sql filter|resolving filter expression)"
    r"|Error applying filter expression to batch): ?"
    r"|SELECT 1 FROM t WHERE|sql parser error: ?"
    r"|,? ?\S*\.(rs|cargo)\S*:\d+:\d+| at Line: \d+, Column: \d+"
)
# The sign or word that an error of evaluating a filter comes from, by what the error says.
_SIGNS = (
    ("divide by zero", r"[/%]"),
    ("overflow", r"[-+*]|\babs\b|\bpower\b"),
    ("regex", r"\bregexp_\w+"),
    ("regular expression", r"\bregexp_\w+"),
    ("date_", r"\bdate_?\w+"),
    ("cast", r"\b(TRY_)?CAST\b|::"),
    ("timestamp", r"\bTIMESTAMP\b|\bto_timestamp\b|\bDATE\b"),
)


def filter_error(where: str, message: str, position: int) -> FilterError:
    """The error for a fault at an offset of a filter; of a long filter it shows the part around the fault."""
    start = max(0, position - _EXCERPT) if len(where) > 2 * _EXCERPT else 0
    excerpt = where[start : start + 2 * _EXCERPT]
    return FilterError(
        "the filter cannot be read", f"{excerpt!r}: {message}", where=excerpt, position=position - start
    )


def unknown_column(name: str, columns: Collection[str]) -> str:
    """What is wrong with a name that is not a column, and the columns, nearest names first."""
    name = name[:100]
    ordered = sorted(
        columns, key=lambda column: (-SequenceMatcher(None, name.lower(), column).ratio(), column)
    )
    more = ["..."] if len(ordered) > _MAX_COLUMNS else []
    return (
        f"no column named {name!r}{suggestion(name, columns)}; the columns are "
        f"{', '.join([*ordered[:_MAX_COLUMNS], *more])}"
    )


def suggestion(name: str, names: Collection[str]) -> str:
    """ ", did you mean 'X'?" for the nearest of some names, or ""."""
    nearest = get_close_matches(name[:100].lower(), names, n=1)
    return f", did you mean {nearest[0]!r}?" if nearest else ""


def engine_error(where: str, error: Exception) -> FilterError:
    """The error for a filter that passed the checks, but that Lance could not plan or evaluate."""
    cause = " ".join(str(error).split())
    # Lance repeats the filter in the parentheses that it was planned in.
    for repeated in (f"({where}\n): ", f"({where}\n) "):
        cause = cause.replace(" ".join(repeated.split()), "", 1)
    cause = " ".join(_NOISE.sub("", cause).split()).strip(" .,:")
    cause = cause.removeprefix("(").removesuffix(")")[:200] if cause.startswith("(") else cause[:200]
    return filter_error(where, cause, _engine_position(where, cause.lower()))


def _engine_position(where: str, cause: str) -> int:
    """Offset of a literal that the cause quotes, else of the sign that such a cause comes from, else 0."""
    for literal in re.finditer(r"'((?:[^']|'')+)'", where):
        if f"'{literal[1].lower()}'" in cause or f'"{literal[1].lower()}"' in cause:
            return literal.start()
    for words, pattern in _SIGNS:
        sign = re.search(pattern, where, re.IGNORECASE) if words in cause else None
        if sign:
            return sign.start()
    return len(where) - len(where.lstrip())
