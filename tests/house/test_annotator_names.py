"""No annotator is known by name in `ares` or in the runner: what a guest brings is treated as ours is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

from ares.annotation import SubjectKind
from ares.episode import Episode
from ares.registry import annotators
from tests.house.imports import ROOT, SOURCES, file_name

READ = [
    path
    for path in SOURCES
    if path.is_relative_to(ROOT / "ares") or path.is_relative_to(ROOT / "annotators" / "runner")
]
# Strings that are also the name of an annotator, by file, with the reason.
NAMED = {
    # Columns that are printed and published under these names, whoever fills them.
    "ares/search/engine.py": {"caption", "grade"},
    "ares/review/answers.py": {"caption"},
    "ares/review/comparison.py": {"caption"},
    # Questions of measurements, and columns that are published under these names.
    "ares/review/measurement_drawing.py": {"caption", "grade"},
    "ares/workspace/answers.py": {"caption"},
    # What a person can write in place of what is shown.
    "ares/workspace/correcting.py": {"caption"},
    "ares/workspace/recipe_cards.py": {"caption"},
    "ares/workspace/workspace.py": {"caption"},
    "ares/workspace/measuring.py": {"caption"},
    "ares/export/precision_gate.py": {"caption"},
    "ares/export/base.py": {"caption", "grade"},
    "ares/export/dataset_card.py": {"grade"},
    "ares/export/rlds/record.py": {"grade"},
    # A column of tables of spans.
    "ares/input/span_files.py": {"caption"},
    "ares/export/segments.py": {"grade"},
    # A style of LeRobot as well.
    "ares/export/lerobot/language.py": {"motion"},
    # A column of the file of segments.
    "ares/export/lerobot/segment_file.py": {"grade"},
    # The extra that installs UMAP.
    "ares/imports.py": {"map"},
    "ares/workspace/episodes.py": {"caption"},
    "ares/workspace/status.py": {"caption"},
    "ares/workspace/episode.py": {"grade"},
    "ares/workspace/summary.py": {"grade"},
    "ares/workspace/result_lists.py": {"caption", "grade"},
    # The column that a judge of texts fills.
    "ares/store/lance/segments.py": {"grade"},
    # A key of the document that a verdict becomes.
    "ares/rubric/verdict.py": {"grade"},
    # The same key in the gradings of controls, and the column that it fills.
    "ares/rubric/tripwire.py": {"grade"},
    "ares/rubric/grade_projection.py": {"grade"},
    # Workspaces of layout 1 do not say what their producers describe.
    "ares/store/stores.py": {"caption", "grade"},
    # The slot of a caption, and what another tool calls the properties of a region.
    "ares/rubric/slots.py": {"attributes"},
    "ares/rubric/control_texts.py": {"attributes"},
}
# Strings that the name of something else is compared with: container formats of videos, fields, properties of signals.
COMPARED = {
    # Of the column that texts of episodes fill, not of an annotator.
    "ares/export/base.py": {"caption"},
    "ares/media/video/codec.py": {"avi"},
    "ares/media/video/orientation.py": {"matroska", "mp4"},
}


def texts(node: ast.AST) -> Iterator[str]:
    """Every string in a piece of code."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def compared_texts(tree: ast.AST) -> Iterator[str]:
    """Strings that an attribute `annotator` or `name` is compared with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and side.attr in ("annotator", "name") for side in sides):
                yield from (text for side in sides for text in texts(side))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_no_string_is_the_name_of_an_annotator() -> None:
    # A field of every episode and a kind of subject may have the name of an annotator: "success", "segment".
    names = set(annotators.names()) - {field.name for field in fields(Episode)} - set(get_args(SubjectKind))
    named = {file_name(path): names.intersection(texts(parse(path))) for path in READ}
    assert {path: strings for path, strings in named.items() if strings} == NAMED


def test_the_name_of_an_annotator_is_compared_with_no_string() -> None:
    compared = {file_name(path): set(compared_texts(parse(path))) for path in READ}
    assert {path: strings for path, strings in compared.items() if strings} == COMPARED


def test_a_comparison_is_found_in_every_form() -> None:
    for source in (
        "producer.annotator == 'grade'",
        "'grade' != annotation.name",
        "x if annotation.name in ('grade', 'caption') else y",
        "[row for row in rows if row.annotator in {'grade'}]",
    ):
        assert "grade" in set(compared_texts(ast.parse(source)))
    assert not set(compared_texts(ast.parse("producer.annotator == annotation.name and kind == 'grade'")))
