"""`ares search` and `ares show`: find moments and segments, and show everything known of one episode."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from app.cli.arguments import (
    COLUMNS_OPTION,
    add_min_score_argument,
    add_query_arguments,
    add_workspace_arguments,
    episode_count,
    open_workspace,
    read_columns,
)
from app.cli.output import Block, OutputTable, answer, paragraphs
from ares.console import count_of, print_message
from ares.errors import RequestError, UnknownEpisode
from ares.process_tuning import hide_pandas_from_pyarrow

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.search import Hit
    from ares.workspace import DatasetSheet, Workspace


_HEADER = (
    "episode",
    "score",
    "found by",
    "camera",
    "second",
    "dataset",
    "source key",
    "grade",
    "caption",
    "instruction",
)


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="words that describe the moment")
    add_query_arguments(parser)
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--segments",
        action="store_true",
        help="find spans by words of their texts; --where is then over the columns of segments",
    )
    parser.add_argument(
        "--limit",
        type=episode_count,
        default=20,
        metavar="N",
        help="most episodes or segments in the answer (default 20)",
    )
    add_min_score_argument(parser)
    parser.add_argument("--columns", **COLUMNS_OPTION)
    add_workspace_arguments(parser, rows=True)


def run_search(args: argparse.Namespace) -> int:
    """Print the matching moments, best first; without anything to rank by, the episodes of the filter, or all."""
    if args.segments:
        return _print_segments(args)
    hits = _list_filtered_episodes(args) if _has_only_filter(args) else _find_hits(args)
    columns = read_columns(args, [hit.episode_id for hit in hits])
    documents: list[dict[str, Json]] = [
        hit.to_json() | {name: values.get(hit.episode_id) for name, values in columns.items()} for hit in hits
    ]
    answer(args, documents, lambda: _hit_table(hits, columns) if hits else "nothing found", documents)
    _warn_of_weak_hits(hits)
    return 0


# Below this a search with words is about something else; the default cut begins at the same score.
_WEAK_SCORE = 0.3


def _warn_of_weak_hits(hits: Sequence[Hit]) -> None:
    """Say on standard error that what was searched for is not there."""
    scores = [hit.score for hit in hits if hit.score is not None]
    if not scores and any(hit.ranks for hit in hits):
        print_message("no scores: the model has no scale that says how far a text is like a picture")
    if scores and max(scores) < _WEAK_SCORE:
        print_message(
            f"probably not there: the best score is {max(scores):.2f} of 1; "
            "--min-score auto leaves out what is not relevant"
        )


def _print_segments(args: argparse.Namespace) -> int:
    """Print the matching segments, every one with the columns of all. Raises RequestError for ways to compare."""
    ways = [name for name in ("image", "like", "by", "min_score") if getattr(args, name)]
    if ways:
        option = f"--{ways[0].replace('_', '-')}"
        raise RequestError("segments are found by words and --where", f"leave out {option}, or --segments")
    segments = open_workspace(args).search_segments(args.text, where=args.where, limit=args.limit)
    columns = read_columns(args, [segment.episode_id for segment in segments])
    documents = [
        segment.to_json() | {name: values.get(segment.episode_id) for name, values in columns.items()}
        for segment in segments
    ]
    names = dict.fromkeys(name for document in documents for name in document)
    rows: list[dict[str, Json]] = [{name: document.get(name) for name in names} for document in documents]
    table = OutputTable(
        [(*_segment_row(row), *(row[name] for name in columns)) for row in rows],
        ("episode", *_SEGMENT_HEADER, *columns),
    )
    answer(args, rows, lambda: table if rows else "nothing found", rows)
    return 0


_TEXT_WIDTH = 100
_SEGMENT_HEADER = ("start", "end", "style", "arm", "author", "text", "grade", "by")


def _segment_row(document: Mapping[str, Any]) -> tuple[object, ...]:
    """A row of a table; --json has long texts in full."""
    text = document["text"]
    shown = text if len(text) <= _TEXT_WIDTH else f"{text[: _TEXT_WIDTH - 3]}..."
    span = document["episode_id"], document["start_seconds"], document["stop_seconds"]
    words = (document["style"], document.get("arm") or "", document["author"])
    return *span, *words, shown, document["grade"], document["annotator"]


def _has_only_filter(args: argparse.Namespace) -> bool:
    ranked_by = (args.text, args.image, args.like, args.by, args.min_score)
    return not any(value not in ("", None) for value in ranked_by)


def _list_filtered_episodes(args: argparse.Namespace) -> Sequence[Hit]:
    from ares.search import list_episodes

    return list_episodes(open_workspace(args).stores, args.where, args.limit)


def _find_hits(args: argparse.Namespace) -> Sequence[Hit]:
    names = ("text", "image", "like", "by", "where", "limit", "min_score")
    query = {name: getattr(args, name) for name in names}
    if args.is_program:
        hide_pandas_from_pyarrow()
    return open_workspace(args).search(**query)


def _hit_table(hits: Sequence[Hit], columns: Mapping[str, Mapping[str, Json]]) -> OutputTable:
    """A row for each hit, and the values of other columns; what no hit has is left out: nothing ranks a list."""
    rows = [
        (
            hit.episode_id,
            "" if hit.score is None else f"{hit.score:.2f}",
            " ".join(f"{way}:{rank}" for way, rank in hit.ranks),
            hit.camera,
            f"{hit.seconds:.2f}" if hit.camera or hit.seconds else "",
            hit.dataset,
            f"{hit.split} {hit.key}".strip(),
            _grade_text(hit),
            hit.caption,
            hit.instruction,
            *(column.get(hit.episode_id) for column in columns.values()),
        )
        for hit in hits
    ]
    header = (*_HEADER, *columns)
    shown = [n for n in range(len(header)) if n >= len(_HEADER) or any(row[n] for row in rows)]
    return OutputTable([[row[n] for n in shown] for row in rows], [header[n] for n in shown])


def _grade_text(hit: Hit) -> str:
    """The grade of a caption with the word for its judge."""
    return ", ".join(word for word in (hit.grade, hit.grade_trust) if word)


# Recorders round their stamps to a thousandth of a second.
_SHOWN_SHIFT_SECONDS = 1e-3
_EPISODE_ID = re.compile("[0-9a-f]{16}")


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
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
    rows = [_segment_row(segment)[1:] for segment in segments[:_MOST_ROWS]]
    yield OutputTable(rows, _SEGMENT_HEADER)
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
        *(
            [("audit", f"{audit['verdict']}, {audit['judge']}")]
            if (audit := document.get("instruction_audit"))
            else ()
        ),
        ("success", {True: "yes", False: "no", None: "unknown"}[document["success"]]),
        *(
            [("judge", f"{document['grade_trust']} in {document['dataset']}")]
            if document["grade_trust"]
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
        # What people say has a table of its own.
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
