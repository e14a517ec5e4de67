"""`ares show`: everything known of one episode, or what is believed of a dataset."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import RequestError, UnknownEpisode
from ares.workspace import describe_grade
from ares_app.cli.arguments import add_workspace_arguments, open_workspace
from ares_app.cli.episode_columns import COLUMNS_OPTION, SEGMENT_COLUMNS, read_columns
from ares_app.cli.output import Block, OutputTable, answer, make_table, paragraphs

if TYPE_CHECKING:
    from ares.workspace import DatasetSheet, Workspace


# Recorders round their stamps to a thousandth of a second.
_SHOWN_SHIFT_SECONDS = 1e-3
_EPISODE_ID = re.compile("[0-9a-f]{16}")


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_show)
    parser.add_argument(
        "episode_id",
        metavar="EPISODE_ID|DATASET",
        help="16 hex digits, as search prints them, or the start of them; or the name of a dataset",
    )
    parser.add_argument("--columns", **COLUMNS_OPTION)
    add_workspace_arguments(parser)


def run_show(args: argparse.Namespace) -> int:
    """Print the episode, or what is believed of the dataset. Raises RequestError for an unknown id.

    A name is looked for among the datasets first, and 16 hex digits among the episodes.
    """
    workspace, name = open_workspace(args), args.episode_id
    is_id = bool(_EPISODE_ID.fullmatch(name))
    if not is_id and _show_dataset(args, workspace):
        return 0
    try:
        document: dict[str, Any] = workspace.episodes[name].to_json()
    except UnknownEpisode:
        if is_id and _show_dataset(args, workspace):
            return 0
        raise
    if args.columns:
        values = read_columns(args, [document["episode_id"]])
        document["columns"] = {name: by_id.get(document["episode_id"]) for name, by_id in values.items()}
    answer(args, document, lambda: _episode_tables(document))
    return 0


def _show_dataset(args: argparse.Namespace, workspace: Workspace) -> bool:
    """Print what is believed of a dataset; False where there is none of that name."""
    from ares.workspace import is_dataset

    if not is_dataset(workspace.stores, args.episode_id):
        return False
    if args.columns:
        raise RequestError(
            "a dataset has no columns", f"leave out --columns {args.columns}, or name an episode"
        )
    sheet = workspace.sheet(args.episode_id)
    answer(args, sheet.to_json(), lambda: _sheet_blocks(sheet))
    return True


def _sheet_blocks(sheet: DatasetSheet) -> Iterator[Block]:
    rows = [(line.what, line.belief, line.origin, line.key) for line in sheet.lines]
    yield f"{sheet.dataset}: {count_of(sheet.episodes, 'episode')}"
    yield OutputTable(rows, ("what", "believed", "told by", "key in a spec"))
    yield "to correct a line: `ares ingest SOURCE --show-spec > FILE`, edit the key, `ares ingest SOURCE --spec FILE`"


# Segments and annotations that are listed, and grades with their rulings: --json has all.
_MOST_ROWS, _MOST_GRADES = 40, 10
_ANSWER_HEADER = ("question", "people say", "why", "person", "when", "origin", "counts", "ares undo")
_GRADE_HEADER = ("slot", "claimed", "seen", "verdict", "frames")


def _episode_tables(document: dict[str, Any]) -> Iterator[Block]:
    names = ("name", "role", "width", "height", "codec", "flags")
    cameras = [
        (name, role, f"{width}x{height}", codec, " ".join(flags))
        for name, role, width, height, codec, flags in map(itemgetter(*names), document["cameras"])
    ]
    tables = [OutputTable(table) for table in (_summary_rows(document), cameras) if table]
    segments = _segment_blocks(document) if "segments" in document else ()
    rows = _annotation_rows(document)
    if answers := _answer_rows(document):
        tables.append(OutputTable(answers[:_MOST_ROWS], _ANSWER_HEADER))
    annotations: list[Block] = [OutputTable(rows[:_MOST_ROWS])] if rows else []
    if len(rows) > _MOST_ROWS:
        annotations.append(
            f"{_MOST_ROWS} of {count_of(len(rows), 'annotation')} that are no segments; --json has all"
        )
    return paragraphs([*tables, *segments, *annotations, *_grade_blocks(document)])


def _answer_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """What people say: the last word of each about each subject, unless it was taken back; then what does not count."""
    names = ("maker_id", "name", "subject", "part", "ordinal")
    newest = {
        itemgetter(*names)(entry): entry for entry in document["annotations"] if entry["kind"] == "person"
    }
    uncounted = document.get("uncounted_answers", [])
    return [
        _answer_row(entry, counts)
        for entries, counts in ((newest.values(), "yes"), (uncounted, "no"))
        for entry in entries
        if "answer" in entry["value"]
    ]


def _answer_row(entry: dict[str, Any], counts: str) -> tuple[str, ...]:
    """What a person says, with the id that takes it back."""
    answer = entry["value"]["answer"]
    named = ("failure_kind", "severity", "text", "reason")
    why = "; ".join(str(answer[name]) for name in named if answer.get(name))
    return (
        answer["question"],
        answer["verdict"],
        why,
        answer["person"],
        entry["created"],
        entry["origin"],
        counts,
        entry["value"].get("restores", entry["annotation_id"]),
    )


def _segment_blocks(document: dict[str, Any]) -> Iterator[Block]:
    """The first segments as a table, and where the others are."""
    segments, id = document["segments"], document["episode_id"]
    yield make_table(SEGMENT_COLUMNS, segments[:_MOST_ROWS])
    if len(segments) > _MOST_ROWS:
        every = f"ares search --segments --where \"episode_id = '{id}'\" --limit {len(segments)}"
        yield f"{_MOST_ROWS} of {count_of(len(segments), 'segment')}; --json has all, and so has `{every}`"


def _grade_blocks(document: dict[str, Any]) -> Iterator[Block]:
    """Of every shown grade its sentence, then its rulings as a table; grades without a sentence are older."""
    graded = [
        (annotation, annotation["value"]["why"])
        for annotation in document["annotations"]
        if annotation["shown"] and annotation["value"].get("rulings") and annotation["value"].get("why")
    ]
    for annotation, why in graded[:_MOST_GRADES]:
        yield f"{annotation['name']}: {why}"
        yield OutputTable([_ruling_row(ruling) for ruling in annotation["value"]["rulings"]], _GRADE_HEADER)
    if len(graded) > _MOST_GRADES:
        yield f"{_MOST_GRADES} of {count_of(len(graded), 'grade')}; --json has all"


def _ruling_row(ruling: dict[str, Any]) -> tuple[str, ...]:
    frames = ", ".join(f"{second:.1f} s" for second in ruling.get("evidence") or ())
    seen = ruling.get("observed") or ruling.get("reason") or ""
    return ruling["criterion"], ruling.get("claimed") or "", seen, ruling["verdict"], frames


def _summary_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    rate = f"{document['rate_hz']:g} Hz ({_rate_origin(document)})"
    origin = f"{document['dataset']} {document['version']} {document['split']} {document['key']}".split()
    return [
        ("episode", document["episode_id"]),
        ("dataset", " ".join(origin)),
        ("source", document["source"]),
        ("instruction", document["instruction"] or "none"),
        *((f"recorded {name}", str(value)) for name, value in document.get("recorded", {}).items()),
        *(
            [("audit", f"{audit['verdict']}: {audit['proposed']!r} fits better")]
            if (audit := document.get("instruction_audit"))
            else ()
        ),
        ("success", {True: "yes", False: "no", None: "unknown"}[document["success"]]),
        *(
            [("grade", describe_grade(grade, is_refuted=bool(document["grade_refuted"])))]
            if (grade := document["grade"])
            else ()
        ),
        ("tags", ", ".join(tag["tag"] for tag in document["tags"]) or "none"),
        ("notes", "; ".join(f"{note['note']} ({note['person']})" for note in document["notes"]) or "none"),
        (
            "length",
            f"{count_of(document['num_steps'], 'step')}, {document['duration_seconds']:.2f} s at {rate}",
        ),
        *(("depth", text) for text in document.get("depth", ())),
        *(
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in document.get("columns", {}).items()
        ),
    ]


def _rate_origin(document: dict[str, Any]) -> str:
    """Where the rate comes from; where it is measured, beside what the source claims, and how uneven the clock is."""
    origin = str(document["rate_source"])
    if origin == "measured" and document["claimed_rate_hz"]:
        origin += f", the source claims {document['claimed_rate_hz']:g} Hz"
    if document["clock_shift_seconds"] > _SHOWN_SHIFT_SECONDS:
        origin += f", uneven by up to {document['clock_shift_seconds']:.3f} s"
    return origin


def _annotation_rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """The annotations that are not among the segments."""
    segments = {segment["annotation_id"] for segment in document.get("segments", ())}
    return [
        (
            annotation["name"] if annotation["shown"] else f"{annotation['name']}, not shown",
            annotation["model"] or "",
            _value_text(annotation["value"]),
        )
        for annotation in document["annotations"]
        if annotation["annotation_id"] not in segments
        # What people say has a separate table.
        if "answer" not in annotation["value"]
    ]


def _value_text(value: dict[str, Any]) -> str:
    """A value on one line; a grade by its sentence, and a value without the raw reply of a model: `--json` has it."""
    if value.get("why"):
        return str(value["why"])
    if "rubric_version" in value:
        from ares.rubric import OLDER_GRADE

        return OLDER_GRADE.format_map({"grade": "error", "rubric": "", **value})
    return json.dumps({key: part for key, part in value.items() if key != "raw"}, ensure_ascii=False)
