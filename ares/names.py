"""The rule for names that people give: of tags, views, sets, queues and folders of exports."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from ares.errors import RequestError

# A folder that is called by a name and some letters more stays below the 255 bytes of a file system.
_MOST_CHARACTERS, _MOST_BYTES = 80, 200
# Controls, surrogates, and ends of lines; other invisible characters turn or hide the text beside them.
_HIDDEN = frozenset(("Cc", "Cs", "Cf", "Zl", "Zp"))


def check_name(what: str, name: str, known: Callable[[], Iterable[str]] = tuple, without: str = "") -> None:
    """Raise RequestError for a text that cannot be a name: letters of any script, signs and inner spaces can.

    Args:
        what: What is named, for the message: "tag".
        name: The name. It is stored as it is.
        known: Names that there are; one of these is valid whatever its form, as older rules were others.
        without: More signs that may not stand in it.
    """
    # Persian, Indic scripts and emoji need the two joiners.
    hidden = [sign for sign in name if unicodedata.category(sign) in _HIDDEN and sign not in "\u200c\u200d"]
    wrong = [sign for sign in f"@{without}" if sign in name]
    is_long = len(name) > _MOST_CHARACTERS or len(name.encode("utf-8", "replace")) > _MOST_BYTES
    no_parts = {part.strip() for part in name.split("/")} & {"", ".", ".."}
    faults = (
        (not name.strip(), "it is empty; give letters or digits"),
        (hidden, f"leave out the invisible character U+{ord((hidden or ' ')[0]):04X}"),
        (name != name.strip(), "leave out the space before or behind it"),
        (is_long, f"it is too long; give at most {_MOST_CHARACTERS} characters and {_MOST_BYTES} bytes"),
        (wrong, f"leave out {' and '.join(map(repr, wrong))}"),
        (no_parts, "leave out '.', '..' and empty parts between '/'"),
        (name[:1] in "-~.", f"let it begin with another sign than {name[:1]!r}"),
    )
    fault = next((text for is_wrong, text in faults if is_wrong), "")
    if fault and name not in known():
        raise RequestError(f"that cannot be the name of a {what}", f"{name[:100]!r}: {fault}")
