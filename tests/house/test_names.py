"""Names are terms of the field: no private words in modules, classes, functions, parameters or variables."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from scripts.house_numbers import frequent_basenames, one_word_functions, uncalled_definitions
from tests.house.imports import SOURCES, file_name

# Words that say nothing of what a name holds or does; see docs/architecture.md.
BANNED = {
    "alone", "among", "asked", "asking", "calm", "calmly", "chosen", "each", "firsts", "found", "given",
    "hands", "held", "hire", "hired", "kin", "knock", "look", "looked", "looking", "made", "mark", "marked",
    "marks", "mine", "odd", "oddities", "oddity", "one", "ones", "pace", "place", "placed", "places",
    "said", "saying", "strangers", "stretch", "stretches", "taken", "telling", "there", "told", "twice",
    "wanted",
}  # fmt: skip
# Terms that contain such a word.
TERMS = {"one_line", "one_hot", "mark_duplicates", "pytest_mark", "placeholder", "connection_made"}
# Role words: every room of one kind of plug-in has such a file.
ROLES = {"source", "episode", "annotator", "exporter", "run", "base", "tables"}
# Doubles that stand beside their protocol, and what people call in Python, in plug-ins, terminals or notebooks.
WITHOUT_CALLERS = (
    "annotators/models/doubles.py",
    "ares/export/member_export.py: export_members",
    "ares/review/labels.py",
    "ares/loader/dataset.py: make_weighted_sampler",
    "ares/workspace/episode.py: plot",
    "ares/workspace/episodes.py: plot",
    "ares/workspace/episodes.py: similar",
    "ares/workspace/workspace.py: torch_dataset",
    "ingest/file_ingester.py: FileIngester",
)
# Methods that Python or a library calls: of files, of servers, of results in a notebook, and of data in a training.
CALLED_BY_LIBRARIES = {
    "_repr_html_", "_runtime_env_has_working_dir", "get_partial_values", "handle_error", "load_state_dict",
    "readall", "readinto", "redirect_request", "seekable", "set_epoch",
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def words_of(name: str) -> set[str]:
    """Lower-case words of an identifier: "EpisodeTable" and "episode_table" have two."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return set(spaced.lower().split("_")) - {""}


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a file names: classes, functions, parameters, attributes, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | Function):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def private_words(name: str) -> set[str]:
    """Banned words of an identifier, those of a term left out."""
    for term in TERMS:
        name = name.replace(term, "")
    return words_of(name) & BANNED


def test_names_are_terms_of_the_field() -> None:
    private = [
        f"{file_name(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in {*identifiers(ast.parse(path.read_text())), (1, path.stem)}
        if private_words(name)
    ]
    assert not private


def test_class_names_are_unique() -> None:
    classes = [
        (node.name, file_name(path))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    counts = Counter(name for name, _ in classes)
    assert not sorted((name, path) for name, path in classes if counts[name] > 1)


def test_a_name_of_a_file_stands_for_one_question() -> None:
    assert not [name for name in frequent_basenames() if name.split()[0] not in ROLES]


def test_a_private_function_says_what_it_does() -> None:
    """With two words or more: `_read_rows`, not `_read`."""
    assert not one_word_functions()


def test_every_definition_has_a_caller() -> None:
    assert not [
        name
        for name in uncalled_definitions()
        if not name.startswith(WITHOUT_CALLERS) and name.split(": ")[1] not in CALLED_BY_LIBRARIES
    ]


def test_words_of_names_are_found_in_every_form() -> None:
    assert words_of("_HeldRows") == {"held", "rows"}
    assert private_words("rows_there") == {"there"}
    assert not private_words("mark_duplicates")
    names = {
        name for _, name in identifiers(ast.parse("def f(found):\n    for one in found:\n        x.told = 1"))
    }
    assert names == {"f", "found", "one", "told"}


# What messages count. After a number of these stands `count_of`, as one of them is no "1 episodes".
COUNTED = (
    "annotations", "answers", "calls", "cameras", "captions", "characters", "columns", "datasets",
    "dimensions", "episodes", "exports", "failures", "files", "folders", "frames", "grades", "images",
    "instructions", "items", "jobs", "judges", "labels", "levels", "members", "messages", "numbers",
    "records", "rows", "segments", "spans", "steps", "tasks", "tokens", "values", "vectors", "videos",
    "warnings", "workers",
)  # fmt: skip
# Names before them, and texts for models, which stay as they were when models answered.
NO_COUNTS = {"{group.suffix} files", "{opened.format} datasets", "{report['annotator']} warnings"}
PROMPTS = {
    "annotators/caption/frame_plan.py", "annotators/revise/critique.py", "annotators/success/model_judge.py"
}  # fmt: skip


def counts_without_singular(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and words of texts in which a number, that may be 1, stands before a plural."""
    plural = re.compile(rf" (?:more |other |different )?(?:{'|'.join(COUNTED)})\b")
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for value, after in pairwise(parts):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                match, expression = plural.match(str(after.value)), ast.unparse(value.value)
                is_constant = re.fullmatch(r"(\w+\.)*_?[A-Z][A-Z_]*(\[\w+\])?", expression)
                if match and not is_constant and not expression.startswith("count_of("):
                    yield value.lineno, f"{{{expression}}}{match[0]}"


def test_a_count_has_a_singular() -> None:
    text = ast.parse('f"{n} episodes {n:,} more files {A_B} jobs"')
    assert [words for _, words in counts_without_singular(text)] == ["{n} episodes", "{n} more files"]
    wrong = [
        f"{file_name(path)}:{line}: {words}"
        for path in SOURCES
        if file_name(path) not in PROMPTS
        for line, words in counts_without_singular(ast.parse(path.read_text()))
        if words not in NO_COUNTS
    ]
    assert not wrong, "ares.console.count_of(number, noun) says it"
