"""Menus of action phrases, from which a blind judge chooses what it sees: shipped files, or one of the user.

A menu is the same for all episodes, and made without reading the instructions or captions of a dataset: a menu that
holds the claims under judgement tells the judge what to see.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from itertools import product
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.annotation import short_hash
from ares.episode import Json
from ares.errors import RequestError
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# With fewer phrases on the menu, choosing the right one is no evidence.
MIN_PHRASES = 4
_MAX_PHRASES = 20_000


class Menu(BaseModel):
    """Action phrases in the imperative.

    Attributes:
        id: Its name.
        version: Its version.
        notes: Where it comes from.
        slots: Words by the name of the slot that they fill in patterns.
        patterns: Phrases with slots in braces, each filled with every word.
        phrases: Further phrases.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1)
    version: str = Field(min_length=1)
    notes: str = ""
    slots: dict[str, list[str]] = {}
    patterns: list[str] = []
    phrases: list[str] = []

    def all_phrases(self) -> list[str]:
        """Every different phrase, in alphabetical order."""
        filled = [phrase for pattern in self.patterns for phrase in _fill(pattern, self.slots)]
        return sorted({*filled, *self.phrases})

    @property
    def hash(self) -> str:
        """16 hex digits over its phrases."""
        return short_hash(list[Json](self.all_phrases()))


def load_menu(name: str) -> Menu:
    """A shipped menu by name, or one in a YAML file.

    Raises:
        RequestError: There is no such menu, or the file cannot be read, has other fields, a pattern with a slot that is
            not there, or too few or too many phrases.
    """
    if name.endswith((".yaml", ".yml")):
        return _read_menu(Path(name))
    names = menu_names()
    if name not in names:
        raise RequestError(
            f"no menu {name!r}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}; or give a YAML file",
        )
    with as_file(_folder().joinpath(f"{name}.yaml")) as path:
        return _read_menu(path)


def menu_names() -> list[str]:
    """Names of the menus that come with ARES, sorted."""
    return sorted(file.name[:-5] for file in _folder().iterdir() if file.name.endswith(".yaml"))


def _folder() -> Traversable:
    return files("annotators.grade").joinpath("menus")


def _read_menu(path: Path) -> Menu:
    try:
        menu = Menu.model_validate(yaml.safe_load(path.read_text("utf-8")))
        count = len(menu.all_phrases())
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise RequestError("menu is not valid", f"{path}: {location}: {first['msg']}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError) as error:
        raise RequestError("menu cannot be read", f"{path}: {error}".replace("\n", " ")) from error
    if not MIN_PHRASES <= count <= _MAX_PHRASES:
        raise RequestError(
            "menu has too few or too many phrases",
            f"{path}: {count}; give {MIN_PHRASES} to {_MAX_PHRASES} different ones",
        )
    return menu


def _fill(pattern: str, slots: dict[str, list[str]]) -> list[str]:
    """The phrases of a pattern. Raises KeyError for a slot that is not there."""
    names = [name for _, name, _, _ in Formatter().parse(pattern) if name]
    return [
        pattern.format(**dict(zip(names, words, strict=True)))
        for words in product(*(slots[name] for name in names))
    ]
