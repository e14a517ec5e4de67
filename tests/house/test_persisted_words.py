"""Words that are stored do not move: ids of producers, names of plug-ins, kinds of documents, tables and their columns.

A path of a module is none of them, so a move of modules changes no recording.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ares.annotation import Producer
from ares.registry import annotators
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.house.imports import ROOT, SOURCES
from tests.ingesting import ingest_paths
from tests.recordings import compare_words

# Methods of a log whose first argument is the kind of a document.
_DOCUMENT_METHODS = (
    "put_documents",
    "claim_document",
    "get_document",
    "get_documents",
    "find_documents",
    "drop_documents",
)
_SHARED_TEXT = re.compile(r'^[A-Z][A-Z_, ]* = "', re.MULTILINE)


@pytest.fixture(scope="module")
def options(reference_models: Path) -> Options:
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    captioner = f"hf:{reference_models / 'reference-captioner'}"
    models = Settings(embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")
    return Options(settings=models, device="cpu")


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory, demo_samples: Path, options: Options
) -> Iterator[Workspace]:
    """An episode with signals and one of videos, their vectors, the columns of every annotator, and a removal."""
    path = tmp_path_factory.mktemp("words") / "workspace"
    hashed = replace(options, settings=replace(options.settings, embed_model="hash:64"))
    with open_workspace(str(path), hashed.settings) as opened:
        rlds = SourceOptions(rate_hz=10.0)
        ingest_paths(opened.stores, [str(demo_samples / "rlds")], rlds, limit=1, quiet=True)
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=1, quiet=True)
        annotate(opened.stores, ["motion", "embed"], hashed, quiet=True)
        for producer in _producers(options, opened):
            opened.stores.annotations.add_producer(producer)
        for name in ("embed", "map"):  # what a run stores before its first call
            annotators.get(name)(options, opened.stores).preflight([])
        opened.sync()
        opened.remove(ids=[min(opened.stores.tables.episodes.ids())])
        yield opened


# Annotators that describe segments, too, as producers of another name.
_PER_SEGMENT = ("caption", "grade")


def _producers(options: Options, workspace: Workspace) -> list[Producer]:
    """The producers of all annotators with default settings, and those of segments."""
    per_segment = replace(options, values={"per": "segment"})
    own = [_producer(name, options, workspace) for name in annotators.names()]
    return [*own, *(_producer(name, per_segment, workspace) for name in _PER_SEGMENT)]


def _producer(name: str, options: Options, workspace: Workspace) -> Producer:
    if name in ("grade", "success"):  # its default rubric is for judges that read and see, and so is success
        options = replace(options, settings=replace(options.settings, judge_model="stub:yes"))
    producer: Producer = annotators.get(name)(options, workspace.stores).producer
    if "umap" in producer.settings:  # the release that is installed
        return replace(producer, settings={**producer.settings, "umap": "RELEASE"})
    return producer


def test_producers_with_default_settings_keep_their_ids(workspace: Workspace, options: Options) -> None:
    """A producer with another id annotates a workspace again."""
    producers = {
        producer.annotator: _describe_producer(producer) for producer in _producers(options, workspace)
    }
    compare_words("words-makers.json", producers)


def _describe_producer(producer: Producer) -> dict[str, object]:
    return {
        "maker_id": producer.maker_id,
        "version": producer.version,
        "model": producer.model,
        "settings": sorted(producer.settings),
        "columns": {column.name: f"{column.type} {column.unit}".strip() for column in producer.columns},
        "describes": [producer.kind, producer.subject_kind, *producer.after],
        "fills_segments": producer.fills_segments,
    }


def test_plugins_keep_their_names() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    compare_words("words-plugins.json", {group: sorted(entries) for group, entries in groups.items()})


def test_kinds_of_documents_keep_their_names() -> None:
    callers = (path for path in SOURCES if any(f".{name}(" in path.read_text() for name in _DOCUMENT_METHODS))
    kinds = {kind for path in callers for kind in _document_kinds(ast.parse(path.read_text()))}
    compare_words("words-documents.json", sorted(kinds))


def test_tables_and_columns_keep_their_names(workspace: Workspace) -> None:
    import lance

    tables = {}
    for path in sorted((Path(str(workspace.path)) / "lance").glob("*.lance")):
        schema = lance.dataset(path).schema
        tables[path.stem] = {field.name: str(field.type) for field in schema}
    compare_words("words-tables.json", tables)


def _document_kinds(tree: ast.Module) -> Iterator[str]:
    """First arguments of the methods of a log: texts, and names of constants."""
    own = _text_constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _DOCUMENT_METHODS and node.args:
            kind = node.args[0]
            if isinstance(kind, ast.Constant):
                yield str(kind.value)
            elif isinstance(kind, ast.Name) and (text := own.get(kind.id) or _shared().get(kind.id)):
                yield text


@cache
def _shared() -> dict[str, str]:
    """Public constants of all modules, which others import."""
    texts = (path.read_text() for path in SOURCES)
    constants = [_text_constants(ast.parse(text)) for text in texts if _SHARED_TEXT.search(text)]
    return {name: text for own in constants for name, text in own.items() if not name.startswith("_")}


def _text_constants(tree: ast.Module) -> dict[str, str]:
    """Texts by the name that a module gives them, several in one line included."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            both_tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs += zip(target.elts, value.elts, strict=True) if both_tuples else [(target, value)]  # type: ignore[attr-defined]
    return {
        target.id: value.value
        for target, value in pairs
        if isinstance(target, ast.Name)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
