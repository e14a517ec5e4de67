"""`ares review`: make queues, answer them by keyboard, list answers, and read and write files of them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.arguments import (
    add_selection_arguments,
    add_trust_argument,
    add_workspace_arguments,
    describe_uncounted,
    episode_count,
    open_workspace,
    parse_selection,
)
from app.cli.output import Columns, answer, answer_list, answer_results
from ares.console import count_of, visible, write_stderr
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.review import Queue, QueueItem, ReviewQueue
    from ares.rubric import Criterion
    from ares.workspace import Measurement, Workspace


# The queue that is made where there is none.
_USUAL_NAME, _USUAL_ANNOTATOR = "review", "caption"
_USUAL_QUESTION = "acceptable"
# Of measurements; `ares.review` has them, too, and takes long to load for a help.
_MEASURED_QUESTIONS = ("caption", "segment", "success", "instruction")
_USUAL_KEYS = {"y": "met", "n": "unmet", "?": "unsure"}
_SUCCESS_KEYS = {"y": "success", "n": "failure", "?": "unsure"}
_UNDO, _GUIDELINE, _QUIT = "u", "g", "q"
_GUIDELINE_KEY = f"{_GUIDELINE} guideline, "
_QUESTIONS = {
    "acceptable": "is the text true?",
    "success": "did the episode succeed?",
    "instruction": "is the instruction of this episode?",
}


def add_review_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_review, describe_stop=describe_review_stop)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a queue of what people are to be asked")
    _add_create_arguments(create)
    following = actions.add_parser("next", help="answer a queue, one key an answer")
    following.add_argument(
        "name", nargs="?", default="", metavar="QUEUE", help="the queue (default: the only one, or a new one)"
    )
    listing = actions.add_parser("list", help="all queues; of a queue or a person the answers")
    listing.add_argument("name", nargs="?", default="", metavar="QUEUE", help="the answers of a queue")
    taking = actions.add_parser("import", help="store the answers of a file")
    giving = actions.add_parser("export", help="write the answers to a file")
    measure = actions.add_parser("measure", help="how many of the accepted captions of a dataset are true")
    _add_measure_arguments(measure)
    for action in (taking, giving):
        action.add_argument("file", type=Path, metavar="FILE", help=".csv or .jsonl")
    add_trust_argument(taking)
    giving.add_argument("--queue", default="", metavar="NAME", help="only the answers of a queue")
    for action in (create, following, measure):
        action.add_argument("--person", default="", metavar="NAME", help="who you are (default: the user)")
    for action in (listing, giving):
        action.add_argument("--person", default="", metavar="NAME", help="only the answers of a person")
    for action in (create, following, measure, listing, taking, giving):
        add_workspace_arguments(action, rows=action is listing)


def _add_measure_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="the dataset")
    parser.add_argument(
        "--question",
        default=_MEASURED_QUESTIONS[0],
        metavar="QUESTION",
        choices=_MEASURED_QUESTIONS,
        help=f"{', '.join(_MEASURED_QUESTIONS)} (default: {_MEASURED_QUESTIONS[0]})",
    )
    parser.add_argument(
        "--at-least",
        type=float,
        default=0.9,
        metavar="P",
        help="ask until this share of true ones is shown, or cannot be any more (default: 0.9)",
    )


def _add_question_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--question",
        default=_USUAL_QUESTION,
        metavar="QUESTION",
        help="acceptable, success, instruction, or a criterion such as VERB (default: acceptable)",
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="ask about the instructions of the episodes that `ares check --instructions` named, and no other",
    )


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="QUEUE", help="its name")
    _add_question_arguments(parser)
    parser.add_argument(
        "--random",
        type=int,
        default=60,
        metavar="N",
        help="items drawn at random (default: 60)",
    )
    parser.add_argument(
        "--repeat",
        type=float,
        default=0.1,
        metavar="P",
        help="share that two people are asked (default: 0.1)",
    )
    parser.add_argument("--seed", type=episode_count, default=1, metavar="N", help="of the draw (default: 1)")
    parser.add_argument(
        "--guideline", type=Path, metavar="FILE", help="text with examples, shown beside the question"
    )
    parser.add_argument(
        "--annotator", default=_USUAL_ANNOTATOR, metavar="NAME", help="whose texts (default: caption)"
    )
    add_selection_arguments(parser)


def run_review(args: argparse.Namespace) -> int:
    """Do the action that the arguments name. Returns 1 when rows of a file were no answers."""
    workspace = open_workspace(args)
    actions: Mapping[str, Callable[[Workspace, argparse.Namespace], int]] = {
        "create": _create_queue,
        "next": _ask_questions,
        "list": _list_answers,
        "import": _import_file,
        "export": _export_file,
        "measure": _measure_dataset,
    }
    return actions[args.action](workspace, args)


def describe_review_stop(args: argparse.Namespace) -> str:
    """What was kept when a signal stopped the command."""
    return "every answer that was given is stored; the same command goes on"


def _create_queue(workspace: Workspace, args: argparse.Namespace) -> int:
    from ares.review import QueueRequest

    if args.instructions and (args.question != _USUAL_QUESTION or not parse_selection(args).is_empty):
        raise RequestError("--instructions says which episodes are asked about", "give no other selection")
    request = QueueRequest(
        name=args.name,
        question=args.question,
        person=_person_name(args),
        random_items=args.random,
        repeat=args.repeat,
        seed=args.seed,
        guideline=_make_guideline(workspace, args),
        annotator=args.annotator,
    )
    if args.instructions:
        queue = workspace.review.create_from_audits(request)
    else:
        queue = workspace.review.create(request, parse_selection(args))
    answer(args, queue.to_json(), lambda: _describe_queue(queue))
    return 0


def _describe_queue(queue: Queue) -> str:
    return (
        f"queue {queue.name}: {count_of(queue.items, 'item')}, "
        f"{queue.doubled} for two people; `ares review next {shlex.quote(queue.name)}`"
    )


def _make_guideline(workspace: Workspace, args: argparse.Namespace) -> str:
    """The text of the file that is named; else the usual one, below what the rubrics say of a criterion."""
    from annotators.grade import load_rubric
    from ares.review import read_guideline, usual_guideline

    if args.guideline:
        return read_guideline(args.guideline)
    settings = workspace.stores.settings
    usual = usual_guideline(settings, args.question)
    if settings.review_guideline or args.question == args.question.lower():
        return usual
    rubrics = (load_rubric(name) for name in ("caption", "segment"))
    criteria = [
        criterion for rubric in rubrics for criterion in rubric.criteria if criterion.id == args.question
    ]
    return "\n\n".join([*(_describe_criterion(criterion) for criterion in criteria[:1]), usual])


def _describe_criterion(criterion: Criterion) -> str:
    lines = [f"{criterion.id}: {criterion.text}"]
    lines += [f"- met: {criterion.passes}"] * bool(criterion.passes)
    return "\n".join([*lines, *[f"- unmet: {criterion.fails}"] * bool(criterion.fails)])


def _person_name(args: argparse.Namespace) -> str:
    from ares.settings import user_name

    return args.person.strip() or user_name()


def _ask_questions(workspace: Workspace, args: argparse.Namespace) -> int:
    """Ask in the terminal until nothing is left; with --json only say what is next."""
    queue, person = _find_queue(workspace, args), _person_name(args)
    if args.output == "json":
        item = queue.next(person)
        document = {"item": item.to_json() if item else None, "progress": queue.progress(person).to_json()}
        answer(args, document, lambda: ())
        return 0
    write_stderr(*queue.queue.guideline.splitlines())
    item = queue.next(person)
    while item is not None:
        write_stderr("", str(queue.progress(person)), *_item_lines(workspace, item, _GUIDELINE_KEY))
        key = _read_key()
        if key in ("", _QUIT):
            break
        item = _react_to_key(queue, item, person, key)
    workspace.sync()
    progress = queue.progress(person)
    end = "nothing is left for you" if item is None else "stopped"
    answer(args, progress.to_json(), lambda: f"{end}: {progress}; yours: {progress.own}")
    return 0


def _react_to_key(queue: ReviewQueue, item: QueueItem, person: str, key: str) -> QueueItem | None:
    """Store an answer, take one back or show the guideline; returns what is asked next."""
    verdict = _keys_of(item).get(key)
    if verdict:
        queue.answer(item, person, verdict)
        return queue.next(person)
    if key == _UNDO:
        return queue.undo(person) or item
    if key == _GUIDELINE:
        write_stderr(*queue.queue.guideline.splitlines())
    return item


def _find_queue(workspace: Workspace, args: argparse.Namespace) -> ReviewQueue:
    """The named queue, the only one, or a new one of all captions."""
    from ares.review import QueueRequest

    queues = workspace.review.queues()
    if not args.name and not queues:
        new_queue = workspace.review.create(
            QueueRequest(
                name=_USUAL_NAME, question="acceptable", person=_person_name(args), annotator=_USUAL_ANNOTATOR
            )
        )
        write_stderr(_describe_queue(new_queue))
        return workspace.review.queue(new_queue.name)
    if not args.name and len(queues) > 1:
        raise RequestError(
            "there are several queues", f"name one: {', '.join(queue.name for queue in queues)}"
        )
    return workspace.review.queue(args.name or queues[0].name)


def _keys_of(item: QueueItem) -> dict[str, str]:
    return _SUCCESS_KEYS if item.question == "success" else _USUAL_KEYS


def _measure_dataset(workspace: Workspace, args: argparse.Namespace) -> int:
    """Ask in the terminal until the share is shown; with --json only say what is known, and what is next."""
    person = _person_name(args)
    measurement = workspace.review.measure(args.dataset, args.question, at_least=args.at_least, person=person)
    item = measurement.next()
    if args.output != "json":
        item = _ask_measured(workspace, measurement, item)
        workspace.sync()
    share = measurement.share
    document: dict[str, Json] = {**share.to_json(), "item": item.to_json() if item else None}
    answer(args, document, lambda: f"{args.dataset}: {share}")
    return 0


def _ask_measured(workspace: Workspace, measurement: Measurement, item: QueueItem | None) -> QueueItem | None:
    """Ask until nothing is left or the person stops. Returns what was not answered."""
    shown: QueueItem | None = None
    is_shown = True
    while item is not None:
        if item != shown:
            could_show, is_shown = is_shown, _open_clips(measurement, item)
            shown = item
            if could_show and not is_shown:
                write_stderr(
                    "no clip can be opened here: answers are kept and do not count; the page Review shows clips"
                )
        write_stderr("", *_item_lines(workspace, item))
        key = _read_key()
        if key in ("", _QUIT):
            break
        if verdict := _keys_of(item).get(key):
            measurement.answer(item, verdict, shown=is_shown)
            item = measurement.next()
        elif key == _UNDO:
            item = measurement.undo() or item
    return item


def _open_clips(measurement: Measurement, item: QueueItem) -> bool:
    """Open the clips of an item in the browser of this machine. Returns whether there is one, and a clip."""
    import webbrowser

    from ares.errors import MediaError

    try:
        browser = webbrowser.get()
        # A plain one is in the terminal, and shows no clip.
        is_of_windows = type(browser) is not webbrowser.GenericBrowser
        opened = [browser.open(path.as_uri()) for path in measurement.clips(item)] if is_of_windows else []
    except (webbrowser.Error, MediaError):
        return False
    return any(opened)


def _item_lines(workspace: Workspace, item: QueueItem, more_keys: str = "") -> Iterator[str]:
    """An item for the terminal: where the clip is, what is said, and the keys."""
    episode = workspace.episodes[item.episode_id]
    yield f"episode {item.episode_id}, {item.start_seconds:.1f} to {item.stop_seconds:.1f} s"
    yield from (f"  {camera.name}: {camera.media.uri}" for camera in episode.cameras)
    if item.evidence:
        yield "  frames that decide: " + ", ".join(f"{second:.1f} s" for second in item.evidence)
    yield f"  {visible(item.text)}"
    keys = ", ".join(f"{key} {verdict}" for key, verdict in _keys_of(item).items())
    question = _QUESTIONS.get(item.question, f"is {item.question} met?")
    yield f"{question} {keys}, {_UNDO} undo, {more_keys}{_QUIT} quit"


def _read_key() -> str:
    """One key from the terminal, or one character of a pipe that is no line break; "" at its end."""
    if not sys.stdin.isatty():
        while (key := sys.stdin.read(1)) in ("\n", "\r", " "):
            pass
        return key
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _list_answers(workspace: Workspace, args: argparse.Namespace) -> int:
    if args.name or args.person:
        if args.name:
            workspace.review.queue(args.name)  # an unknown one is refused
        answer_results(args, workspace.review.answers(queue=args.name, person=args.person))
        return 0
    queues = workspace.review.queues()
    progress = {queue.name: workspace.review.queue(queue.name).progress() for queue in queues}
    documents = [{**queue.to_json(), "progress": progress[queue.name].to_json()} for queue in queues]
    columns: Columns = {
        "queue": lambda queue: queue.name,
        "question": lambda queue: queue.question,
        "answered": lambda queue: progress[queue.name],
        "made by": lambda queue: queue.person,
        "created": lambda queue: queue.created,
    }
    write_stderr(*describe_uncounted(workspace.review.uncounted()))
    answer_list(args, queues, columns, "no queues", documents)
    return 0


def _import_file(workspace: Workspace, args: argparse.Namespace) -> int:
    report = workspace.review.import_file(args.file, trust_answers_of=args.trust_answers_of)
    write_stderr(*(f"row {row.number}: {row.reason}" for row in report.bad))
    lines = [
        f"stored {count_of(report.stored, 'answer')}, {report.trusted} count from now on; "
        f"{report.known} counted already, {report.bad_rows} bad rows",
        *describe_uncounted(report.uncounted),
    ]
    answer(args, report.to_json(), lambda: lines)
    return 1 if report.bad_rows else 0


def _export_file(workspace: Workspace, args: argparse.Namespace) -> int:
    count = workspace.review.export_file(args.file, queue=args.queue, person=args.person)
    document = {"file": str(args.file), "answers": count}
    answer(args, document, lambda: f"wrote {count_of(count, 'answer')} to {args.file}")
    return 0
