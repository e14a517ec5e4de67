"""The hand-written texts of the battery, read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from ares.errors import RequestError

Texts = Mapping[str, tuple[str, ...]]


@cache
def hostile_texts() -> Texts:
    """Captions that must not pass, by family; "{}" is the true caption."""
    return _read("hostile.yaml")


@cache
def shipped_paraphrases() -> Texts:
    """True paraphrases, by the caption that they paraphrase."""
    return _read("paraphrases.yaml")


def read_paraphrases(path: Path) -> Texts:
    """Paraphrases in a YAML file of the user. Raises RequestError for another form."""
    import yaml

    try:
        return _checked(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise RequestError("paraphrases cannot be read", f"{path}: {error}".replace("\n", " ")) from None


def _read(name: str) -> Texts:
    import yaml

    return _checked(yaml.safe_load(files("ares.rubric.attacks").joinpath("texts", name).read_text("utf-8")))


def _checked(document: object) -> Texts:
    """Raises ValueError unless it is a mapping from a text to a list of texts."""
    if not isinstance(document, dict):
        raise ValueError("give a mapping from each caption to a list of texts")
    for caption, texts in document.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{caption!r} has no list of texts, but {texts!r}")
    return {str(caption): tuple(texts) for caption, texts in document.items()}
