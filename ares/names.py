"""The rule for names that people give: of tags, views, sets, queues and folders of exports."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from ares.errors import RequestError

# A folder that is called by a name and some letters more stays below the 255 bytes of a file system.
_MOST_CHARACTERS, _MOST_BYTES = 80, 200
# Controls, surrogates, and ends of lines; other invisible characters turn or hide the text beside them.
_INVISIBLE = frozenset(("Cc", "Cs", "Cf", "Zl", "Zp"))
# Persian, Indic scripts and emoji need these.
_JOINERS = "\u200c\u200d"


def check_name(
    what: str, name: str, known: Callable[[], Iterable[str]] = tuple, *, has_parts: bool = True
) -> None:
    """Raise RequestError for a text that cannot be a name: letters of any script, signs and inner spaces can.

    Args:
        what: What is named, for the message: "tag".
        name: The name. It is stored as it is.
        known: Names that there are; one of these is valid whatever its form, as older rules were others.
        has_parts: Whether "/" may stand in it, between parts.
    """
    fault = _find_fault(name, has_parts)
    if fault and name not in known():
        shown = f"{name[:100]!r}{' ...' if len(name) > 100 else ''}"
        raise RequestError(f"that cannot be the name of a {what}", f"{shown}: {fault}")


def _find_fault(name: str, has_parts: bool) -> str:
    """What is wrong with a name and what would be right; "" for a good one."""
    hidden = [sign for sign in name if unicodedata.category(sign) in _INVISIBLE and sign not in _JOINERS]
    if not name.strip():
        return "it is empty; give letters or digits"
    if hidden:
        return f"leave out the invisible character U+{ord(hidden[0]):04X}"
    if name != name.strip():
        return "leave out the space before or behind it"
    if len(name) > _MOST_CHARACTERS or len(name.encode()) > _MOST_BYTES:
        return f"it is too long; give at most {_MOST_CHARACTERS} characters and {_MOST_BYTES} bytes"
    if "@" in name:
        return "leave out '@', which stands before the version of a set"
    if name[0] in "-~":
        return f"let it begin with another sign than {name[0]!r}"
    if "/" in name and not has_parts:
        return "leave out '/'"
    if any(part.strip() in ("", ".", "..") for part in name.split("/")):
        return "leave out '.', '..' and empty parts between '/'"
    return ""
