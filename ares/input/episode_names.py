"""Finds the episode that a file beside a dataset means by a name or a number."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

_NUMBER = re.compile(r"\d+")


class EpisodeNames:
    """What a file may call the episodes of a dataset: keys, ends of them, names without endings, numbers.

    Args:
        keys: Keys of the episodes; levels are parted by "/".
    """

    def __init__(self, keys: Collection[str]) -> None:
        self._by_name: dict[str, str] = {}
        for key in keys:
            for name in dict.fromkeys(_names_of_key(key)):
                self._by_name[name] = "" if name in self._by_name else key
        self._by_name |= {key: key for key in keys}
        self._by_number = _numbers_of_keys(list(keys))

    def find_text(self, name: object) -> str:
        """The key that a text names, "" for none or for several."""
        if not isinstance(name, str):
            return ""
        text = name.strip().replace("\\", "/").removeprefix("./")
        tail = text.rpartition("/")[2]
        candidates = (text, tail, _without_suffix(text), _without_suffix(tail))
        return next((key for part in candidates if (key := self._by_name.get(part))), "")

    def find_number(self, name: object) -> str:
        """The key whose number a whole number or its digits name, "" for none."""
        number = _read_whole_number(name)
        return "" if number is None else self._by_number.get(number, "")

    def find(self, name: object) -> str:
        """The key that a name or a number means, "" for none."""
        return self.find_text(name) or self.find_number(name)

    def reason_shifted(self, names: Iterable[str | int]) -> str:
        """Why numbers do not say which episode is meant: they are those of the episodes, but for a constant; or ""."""
        names = list(names)
        if any(self.find_text(name) for name in names):
            return ""
        numbers = sorted({n for name in names if (n := _read_whole_number(name)) is not None})
        known = sorted(self._by_number)
        if len(numbers) != len(known) or numbers == known:
            return ""
        if len({number - other for number, other in zip(numbers, known, strict=True)}) > 1:
            return ""
        return (
            f"counts episodes from {numbers[0]} to {numbers[-1]}, their names from {known[0]} to {known[-1]}: it is"
            " not read; name the episodes as their files are named"
        )


def _read_whole_number(name: object) -> int | None:
    """The whole number that a value is, or that its digits are."""
    if isinstance(name, str) and name.strip().isdecimal():
        return int(name.strip()[:18])
    return name if isinstance(name, int) and not isinstance(name, bool) else None


def _names_of_key(key: str) -> Iterator[str]:
    """The ends, beginnings and levels of a key, each also without its ending."""
    parts = key.partition("#")[0].split("/")
    for level, part in enumerate(parts):
        for name in ("/".join(parts[level:]), "/".join(parts[: level + 1]), part):
            yield name
            yield _without_suffix(name)


def _without_suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and suffix.isalnum() and len(suffix) <= 7 else name


def _numbers_of_keys(keys: Sequence[str]) -> dict[int, str]:
    """Keys by the last number of the last level that differs; empty where one has none, or two have the same."""
    levels = [key.split("/") for key in keys]
    depth = min(map(len, levels), default=0)
    level = next((-n for n in range(1, depth + 1) if len({parts[-n] for parts in levels}) > 1), -1)
    numbers: dict[int, str] = {}
    for key, parts in zip(keys, levels, strict=True):
        digits = _NUMBER.findall(_without_suffix(parts[level]))
        if not digits or int(digits[-1][:18]) in numbers:
            return {}
        numbers[int(digits[-1][:18])] = key
    return numbers
