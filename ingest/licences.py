"""Reads what the files of a dataset and its spec state of its licence, and of the consent of the people in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.episode import Json
from ares.errors import AresError
from ares.input import parse_yaml, read_input, read_json
from ares.io import list_folder, parse_path

# Words of a licence, by the identifier that dataset cards on the Hugging Face Hub use for it; the first that fits.
# A text of a licence is told by its title, so that a mention of another one far below does not count.
_LICENCES: tuple[tuple[str, str], ...] = (
    (r"creative commons (zero|cc0)|\bcc0\b|\bcc-?0-1\.0", "cc0-1.0"),
    (r"attribution.non-?commercial.no-?deriv\w*|\bcc[- ]by-nc-nd\b", "cc-by-nc-nd-{}"),
    (r"attribution.non-?commercial.share-?alike|\bcc[- ]by-nc-sa\b", "cc-by-nc-sa-{}"),
    (r"attribution.non-?commercial|\bcc[- ]by-nc\b", "cc-by-nc-{}"),
    (r"attribution.no-?deriv\w*|\bcc[- ]by-nd\b", "cc-by-nd-{}"),
    (r"attribution.share-?alike|\bcc[- ]by-sa\b", "cc-by-sa-{}"),
    (r"creative commons attribution|attribution \d\.0 international|\bcc[- ]by\b", "cc-by-{}"),
    (r"\bapache\b.{0,30}2(\.0)?\b", "apache-2.0"),
    (r"\bmit\b( license| licence)?|permission is hereby granted, free of charge", "mit"),
    (r"\bbsd[- ]3|neither the name of", "bsd-3-clause"),
    (r"\bbsd[- ]2|redistribution and use in source and binary forms", "bsd-2-clause"),
    (r"\bagpl|affero general public", "agpl-3.0"),
    (r"\blgpl|lesser general public", "lgpl-3.0"),
    (r"\bgpl|gnu general public", "gpl-3.0"),
    (r"open data commons attribution|\bodc-by\b", "odc-by"),
    (r"open database license|\bodbl\b", "odbl"),
    (r"public domain|\bunlicense\b", "unlicense"),
)
_CREATIVE_COMMONS_VERSION = re.compile(r"\b([1-4])\.0\b")
_DEFAULT_VERSION = "4.0"
# The text of a licence names itself within so many characters; a BSD text has its third clause further below.
_TITLE_CHARACTERS = 400
_LONGEST_NAME = 80
_LICENCE_FILE = re.compile(r"(licen[sc]e|copying)([-_.].*)?", re.IGNORECASE)
_CARD_FILE = re.compile(r"readme\.(md|markdown|txt)", re.IGNORECASE)
_INFO_FILES = ("info.json", "dataset_info.json", "dataset_description.json")
_LICENCE_KEYS, _CONSENT_KEYS = ("licence", "license", "licence_name"), ("consent",)
_CARD_LINE = re.compile(
    r"^[#*\s>-]*(?:licen[sc]e|licen[sc]ed under)\b[^\w\n]*\n?\s*(\S.*)$", re.IGNORECASE | re.MULTILINE
)
# A folder of TensorFlow Datasets is named by its version; what is said of the dataset may lie above it.
_VERSION_FOLDER = re.compile(r"\d+\.\d+\.\d+")
# The file by which a folder above is an export of ARES, whose card speaks for each dataset in it.
_EXPORT_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StatedFact:
    """One thing that a file says of a dataset.

    Attributes:
        kind: "licence" or "consent".
        value: What it says; of a known licence its identifier, such as "cc-by-4.0".
        origin: Name of the file, or "spec".
    """

    kind: str
    value: str
    origin: str


def read_stated_facts(folder: str, spec: Mapping[str, Any]) -> dict[str, Json]:
    """The licences and consents that the files of a dataset and its spec state, for the document of the dataset.

    What a person states in a spec stands alone: it is there to correct what files say.

    Args:
        folder: Folder, or single file, of the dataset.
        spec: Content of its spec; empty without one.

    Returns:
        By "licences" and "consents" a list of {"value", "origin"}, one for each different value. Neither where nothing
        is stated.
    """
    facts = [*_facts_of_spec(spec)]
    corrected = {fact.kind for fact in facts}
    facts += [fact for fact in _facts_of_files(folder) if fact.kind not in corrected]
    document: dict[str, Json] = {}
    for name, kind in (("licences", "licence"), ("consents", "consent")):
        origins: dict[str, str] = {}
        for fact in facts:
            if fact.kind == kind:
                origins.setdefault(fact.value, fact.origin)
        if origins:
            document[name] = [{"value": value, "origin": origin} for value, origin in origins.items()]
    return document


def _facts_of_spec(spec: Mapping[str, Any]) -> Iterator[StatedFact]:
    for kind in ("licence", "consent"):
        if text := str(spec.get(kind) or "").strip():
            yield StatedFact(kind, identify_licence(text) if kind == "licence" else text, "spec")


def _facts_of_files(folder: str) -> Iterator[StatedFact]:
    """What each file says, in the folder first; a file that cannot be read says nothing."""
    for holder in _folders_to_read(parse_path(folder)):
        try:
            names = sorted(list_folder(holder).files)
        except FileNotFoundError:  # of an object store; a local disk lists nothing
            continue
        for name in names:
            path = holder / name
            try:
                if _LICENCE_FILE.fullmatch(name):
                    yield StatedFact("licence", identify_licence(_read_text(path)), name)
                elif _CARD_FILE.fullmatch(name):
                    yield from _facts_of_card(_read_text(path), name)
                elif name in _INFO_FILES:
                    yield from _facts_of_info(read_json(str(path)), name)
            except (AresError, OSError, ValueError):
                continue


def _folders_to_read(folder: Path) -> list[Path]:
    """The folder of a dataset, its `meta`, and the folder above where that speaks for it too."""
    if folder.suffix and folder.is_file():
        return [folder.parent]
    speaks_above = _VERSION_FOLDER.fullmatch(folder.name) or (folder.parent / _EXPORT_MANIFEST).is_file()
    return [folder, folder / "meta", *([folder.parent] if speaks_above else [])]


def _read_text(path: Path) -> str:
    return read_input(str(path)).decode("utf-8", "replace")


def _facts_of_card(text: str, name: str) -> Iterator[StatedFact]:
    """What a dataset card says: its front matter, else a heading or a line about the licence that names a known one."""
    if text.startswith("---"):
        matter = parse_yaml(text[3:].partition("\n---")[0], name)
        if isinstance(matter, Mapping):
            facts = [*_facts_of_info(matter, name)]
            yield from facts
            if any(fact.kind == "licence" for fact in facts):
                return
    for match in _CARD_LINE.finditer(text):
        if licence := _known_licence(match[1]):
            yield StatedFact("licence", licence, name)
            return


def _facts_of_info(document: Any, name: str) -> Iterator[StatedFact]:
    """What the fields of a JSON file or of front matter say; TensorFlow Datasets has the licence one level deeper."""
    if not isinstance(document, Mapping):
        return
    inner = document.get("redistributionInfo")
    values = {**(inner if isinstance(inner, Mapping) else {}), **document}
    for kind, keys in (("licence", _LICENCE_KEYS), ("consent", _CONSENT_KEYS)):
        for text in _texts_of(values.get(key) for key in keys):
            if text.lower() not in ("other", "unknown"):
                yield StatedFact(kind, identify_licence(text) if kind == "licence" else text, name)


def _texts_of(values: Iterable[Any]) -> Iterator[str]:
    """The texts among values and lists of them, without spaces around them; no empty ones."""
    for value in values:
        listed = value if isinstance(value, list) else [value]
        yield from (text.strip() for text in listed if isinstance(text, str) and text.strip())


def identify_licence(text: str) -> str:
    """The identifier of the licence that a text names or is, such as "cc-by-4.0"; else its first line, shortened."""
    if known := _known_licence(text):
        return known
    first = next((line.strip() for line in text.splitlines() if line.strip()), "empty")
    return first[:_LONGEST_NAME]


def _known_licence(text: str) -> str:
    """The identifier of the licence that the beginning of a text names; "" where it names none that is known."""
    title = " ".join(text[:_TITLE_CHARACTERS].lower().split())
    whole = " ".join(text.lower().split())
    for pattern, identifier in _LICENCES:
        is_clause = "bsd" in identifier
        if re.search(pattern, whole if is_clause and "redistribution and use" in whole else title):
            version = _CREATIVE_COMMONS_VERSION.search(title)
            return identifier.replace("{}", f"{version[1]}.0" if version else _DEFAULT_VERSION)
    return ""
