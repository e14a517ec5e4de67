"""`ares review`: make queues, answer them by keyboard, list answers, and read and write files of them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of, showing_progress, visible, write_stderr
from ares.errors import MediaError, RequestError
from ares.settings import user_name
from ares_app.cli.arguments import (
    add_selection_arguments,
    add_trust_argument,
    add_workspace_arguments,
    describe_uncounted,
    open_workspace,
    parse_selection,
)
from ares_app.cli.output import Columns, answer, answer_list, answer_results

if TYPE_CHECKING:
    from webbrowser import BaseBrowser

    from ares.episode import Json
    from ares.review import Queue, QueueItem, ReviewQueue
    from ares.workspace import Measurement, Workspace


# The queue that is made where there is none.
_USUAL_NAME, _USUAL_ANNOTATOR = "review", "caption"
_USUAL_QUESTION = "acceptable"
# Of measurements; `ares.review` has them, too, and takes long to load for a help.
_MEASURED_QUESTIONS = ("caption", "segment", "success", "instruction")
_QUIT = "q"
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
    listing.add_argument(
        "--person", default="", metavar="NAME", help="list the answers of this person, of any queue or file"
    )
    taking = actions.add_parser("import", help="store the answers of a file")
    giving = actions.add_parser("export", help="write the answers to a file")
    measure = actions.add_parser("measure", help="how many of the accepted captions of a dataset are true")
    _add_measure_arguments(measure)
    for action in (taking, giving):
        action.add_argument("file", type=Path, metavar="FILE", help=".csv or .jsonl")
    giving.add_argument(
        "name", nargs="?", default="", metavar="QUEUE", help="the answers of a queue (default: all)"
    )
    add_trust_argument(taking)
    for action in (create, following, measure, listing, taking, giving):
        add_workspace_arguments(action, rows=action is listing)


def _add_measure_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="the dataset")
    parser.add_argument(
        "--question",
        default=_MEASURED_QUESTIONS[0],
        metavar="QUESTION",
        help=f"measure the truth of this: {', '.join(_MEASURED_QUESTIONS)}, or an attribute such as attr_lighting "
        f"(default: {_MEASURED_QUESTIONS[0]})",
    )
    parser.add_argument(
        "--at-least",
        type=float,
        default=0.9,
        metavar="P",
        help="ask until this share of true ones is shown, or cannot be any more (default: 0.9)",
    )


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="QUEUE", help="its name")
    parser.add_argument(
        "--question",
        default=_USUAL_QUESTION,
        metavar="QUESTION",
        help="ask this: acceptable (default), success, instruction, a criterion such as VERB, "
        "or an attribute such as attr_lighting",
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="ask about the instructions of the episodes that `ares audit instructions` named, and no other",
    )
    parser.add_argument(
        "--random",
        type=int,
        default=60,
        metavar="N",
        help="draw so many items at random (default: 60)",
    )
    parser.add_argument(
        "--annotator",
        default=_USUAL_ANNOTATOR,
        metavar="NAME",
        help="ask about texts of this annotator (default: caption)",
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
        person=user_name(),
        random_items=args.random,
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
        f"{queue.doubled} for two people; `ares review next {shlex.quote(queue.name)}`, "
        f"or /review?queue={queue.name} in `ares app`"
    )


def _ask_questions(workspace: Workspace, args: argparse.Namespace) -> int:
    """Ask in the terminal until nothing is left; with --json only say what is next."""
    queue, person = _find_queue(workspace, args), user_name()
    if args.output == "json":
        item = queue.next(person)
        document = {"item": item.to_json() if item else None, "progress": queue.progress(person).to_json()}
        answer(args, document, lambda: ())
        return 0
    write_stderr(*queue.queue.guideline.splitlines())
    item = queue.next(person)
    while item is not None:
        write_stderr("", queue.progress(person).describe_own(), *_item_lines(workspace, item))
        key = _read_key()
        if key in ("", _QUIT):
            break
        item = _react_to_key(queue, item, person, key)
    workspace.sync()
    progress = queue.progress(person)
    end = "stopped" if item else f"nothing is left for you{progress.describe_busy()}"
    own = f"{progress.describe_own()}{progress.describe_verdicts()}"
    answer(args, progress.to_json(), lambda: f"{end}: {progress}; {own}")
    return 0


def _react_to_key(queue: ReviewQueue, item: QueueItem, person: str, key: str) -> QueueItem | None:
    """Store an answer, take one back or show the guideline; returns what is asked next."""
    from ares.review import HELP_KEY, UNDO_KEY

    verdict = _verdict_of(item, key)
    if verdict:
        queue.answer(item, person, verdict)
        return queue.next(person)
    if key == UNDO_KEY:
        return queue.undo(person) or item
    if key == HELP_KEY:
        write_stderr(*queue.queue.guideline.splitlines())
    return item


def _find_queue(workspace: Workspace, args: argparse.Namespace) -> ReviewQueue:
    """The named queue, the only one, or a new one of all captions."""
    from ares.review import QueueRequest

    queues = workspace.review.queues()
    if not args.name and not queues:
        new_queue = workspace.review.create(
            QueueRequest(
                name=_USUAL_NAME, question="acceptable", person=user_name(), annotator=_USUAL_ANNOTATOR
            )
        )
        write_stderr(_describe_queue(new_queue))
        return workspace.review.queue(new_queue.name)
    if not args.name and len(queues) > 1:
        raise RequestError(
            "there are several queues", f"name one: {', '.join(queue.name for queue in queues)}"
        )
    return workspace.review.queue(args.name or queues[0].name)


def _verdict_of(item: QueueItem, key: str) -> str:
    """What a key answers; "" for another key."""
    from ares.review import list_answer_keys

    return next((answer.verdict for answer in list_answer_keys(item.question) if answer.key == key), "")


def _measure_dataset(workspace: Workspace, args: argparse.Namespace) -> int:
    """Ask in the terminal until the share is shown; with --json only say what is known, and what is next."""
    person = user_name()
    measurement = workspace.review.measure(args.dataset, args.question, at_least=args.at_least, person=person)
    item = None
    if args.output == "json":
        item = measurement.next()
    elif not measurement.progress.is_finished(args.at_least):
        item = _ask_measured(workspace, measurement)
        workspace.sync()
    share = measurement.share
    is_over = item or share.is_finished(args.at_least)
    busy = "" if is_over else measurement.queue.progress(person).describe_busy()
    document: dict[str, Json] = {**share.to_json(), "item": item.to_json() if item else None}
    answer(args, document, lambda: f"{args.dataset}: {share}{busy}")
    return 0


def _ask_measured(workspace: Workspace, measurement: Measurement) -> QueueItem | None:
    """Ask until nothing is left or the person stops. Returns what was not answered."""
    from ares.review import HELP_KEY, UNDO_KEY

    if (browser := _find_browser()) is None:
        name = measurement.drawing.queue.name
        write_stderr(f"no clip can be opened here: start `ares app` and answer at /review?queue={name}")
        return None
    shown: QueueItem | None = None
    item, is_shown = measurement.next(), False
    while item is not None:
        if item != shown:
            shown, is_shown = item, _open_clips(browser, measurement, item)
            if not is_shown:
                write_stderr("no clip of this episode can be opened: the answer is kept and does not count")
        write_stderr("", *_item_lines(workspace, item))
        key = _read_key()
        if key in ("", _QUIT):
            break
        if verdict := _verdict_of(item, key):
            measurement.answer(item, verdict, shown=is_shown)
            item = measurement.next()
        elif key == UNDO_KEY:
            item = measurement.undo() or item
        elif key == HELP_KEY:
            write_stderr(*measurement.queue.queue.guideline.splitlines())
    return item


def _find_browser() -> BaseBrowser | None:
    """The browser of this machine; None where there is none, or a plain one in the terminal that shows no clip."""
    import webbrowser

    with suppress(webbrowser.Error):
        if type(browser := webbrowser.get()) is not webbrowser.GenericBrowser:
            return browser
    return None


def _open_clips(browser: BaseBrowser, measurement: Measurement, item: QueueItem) -> bool:
    """Open the clips of an item. Returns whether there is one."""
    try:
        opened = [browser.open(path.as_uri()) for path in measurement.clips(item)]
    except MediaError:
        return False
    return any(opened)


def _item_lines(workspace: Workspace, item: QueueItem) -> Iterator[str]:
    """An item for the terminal: where the clip is, what is said, and the keys."""
    from ares.review import HELP_KEY, UNDO_KEY, list_answer_keys

    episode = workspace.episodes[item.episode_id]
    yield f"episode {item.episode_id}, {item.start_seconds:.1f} to {item.stop_seconds:.1f} s"
    yield from (f"  {camera.name}: {camera.media.uri}" for camera in episode.cameras)
    if item.evidence:
        yield "  frames that decide: " + ", ".join(f"{second:.1f} s" for second in item.evidence)
    yield f"  {visible(item.text)}"
    keys = ", ".join(f"{answer.key} {answer.label}" for answer in list_answer_keys(item.question))
    attribute = "is this true?" if item.question.startswith("attr_") else ""
    question = _QUESTIONS.get(item.question) or attribute or f"is {item.question} met?"
    yield f"{question} {keys}, {UNDO_KEY} undo, {HELP_KEY} guideline, {_QUIT} quit"


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
        with showing_progress():  # a person thinks, and no step is slow
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
    count = workspace.review.export_file(args.file, queue=args.name)
    document = {"file": str(args.file), "answers": count}
    answer(args, document, lambda: f"wrote {count_of(count, 'answer')} to {args.file}")
    return 0
