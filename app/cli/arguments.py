"""Arguments that several commands share: the workspace, selected episodes, numbers, and confirmation."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import Verbosity, count_of, visible
from ares.errors import RequestError, shorten
from ares.registry import did_you_mean
from ares_app.cli.output import DOCUMENT_FORMATS, ROW_FORMATS

if TYPE_CHECKING:
    from ares.jobs import EpisodeSelection
    from ares.store import Action
    from ares.workspace import Workspace


_Arguments = argparse.ArgumentParser | argparse._ArgumentGroup


_DEFAULT_WORKSPACE = "$ARES_WORKSPACE or ./ares-workspace"


def add_workspace_arguments(
    parser: argparse.ArgumentParser, *, rows: bool = False, default: str = _DEFAULT_WORKSPACE
) -> None:
    """Add the options that every command on a workspace has: --workspace, --output, --json, -v, -q, --config.

    Args:
        parser: Parser of the command.
        rows: Whether the answer is a list, which can be printed as JSON lines and CSV too.
        default: The workspace that is used without the option, for the help.
    """
    formats = ROW_FORMATS if rows else DOCUMENT_FORMATS
    group = parser.add_argument_group("workspace and output")
    add_workspace_option(group, default)
    _add_output_options(group, formats)
    add_common_options(group)
    parser.set_defaults(formats=formats)


def refuse_output_format(args: argparse.Namespace) -> None:
    """Raise RequestError for a format that stands before a command whose answer has no rows."""
    if args.output not in getattr(args, "formats", ROW_FORMATS):
        raise RequestError(
            f"the answer of `ares {args.command}` is no list", f"--output {args.output}; give table or json"
        )


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Add the same options to the parser of all commands, so that they may stand before the command.

    Their defaults are set here, once: those of a command would replace what stands before it.
    """
    group = parser.add_argument_group("options of every command")
    add_workspace_option(group)
    _add_output_options(group, ROW_FORMATS)
    add_common_options(group)
    parser.set_defaults(workspace=None, output=DOCUMENT_FORMATS[0], verbosity=Verbosity.NORMAL, config="")


def add_workspace_option(parser: _Arguments, default: str = _DEFAULT_WORKSPACE) -> None:
    """Add --workspace."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help=f"workspace: a folder, or a URI such as s3://bucket/name (default: {default})",
    )


def _add_output_options(parser: _Arguments, formats: tuple[str, ...]) -> None:
    parser.add_argument(
        "--output",
        metavar="FORMAT",
        choices=formats,
        default=argparse.SUPPRESS,
        help=f"{', '.join(formats[:-1])} or {formats[-1]} on standard output (default: {formats[0]})",
    )
    parser.add_argument(
        "--json",
        dest="output",
        action="store_const",
        const="json",
        default=argparse.SUPPRESS,
        help="the same as --output json: one JSON document on standard output",
    )


def add_common_options(parser: _Arguments) -> None:
    """Add -v, -q and --config."""
    levels = (
        ("-v", "--verbose", Verbosity.VERBOSE, "also steps with their durations, logs, tracebacks"),
        ("-q", "--quiet", Verbosity.QUIET, "no progress and no messages: only errors on standard error"),
    )
    for short, long, level, text in levels:
        parser.add_argument(
            short,
            long,
            dest="verbosity",
            action="store_const",
            const=level,
            default=argparse.SUPPRESS,
            help=text,
        )
    parser.add_argument(
        "--config",
        type=parse_user_path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="read the settings from this file (default: $ARES_CONFIG or ~/.config/ares/ares.toml)",
    )


def parse_user_path(text: str) -> str:
    """A path with a leading "~" as the user's folder, which a shell leaves in `--spec=~/file`."""
    return os.path.expanduser(text)  # noqa: PTH111  # a Path would change URLs


# Options whose files or folders a command itself writes; those of methods of Python are checked there.
_OUTPUTS = ("copy", "reasons", "write_options")


def refuse_output_urls(args: argparse.Namespace) -> None:
    """Raise RequestError for an option that names a URL to write."""
    from ares.io import local_output

    for name in _OUTPUTS:
        local_output(getattr(args, name, ""))


def add_options_file(parser: argparse.ArgumentParser, options: str) -> None:
    """Add --write-options and --options.

    Args:
        parser: Parser of the command.
        options: What the file has, for the help.
    """
    parser.add_argument(
        "--write-options",
        default="",
        metavar="FILE",
        help=f"only write {options} to a new YAML file, with what each is for, to be edited",
    )
    parser.add_argument(
        "--options",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help=f"read {options} from such a file, or from its text, which begins with {{",
    )


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the parts of a search query other than its text."""
    parser.add_argument(
        "--image",
        default="",
        metavar="FILE",
        help="find moments that look like this image, or like EPISODE_ID/CAMERA@SECONDS",
    )
    parser.add_argument(
        "--like",
        default="",
        metavar="EPISODE_ID",
        help="find episodes like this one: its id or the start of it",
    )
    parser.add_argument(
        "--by",
        default="",
        metavar="WAY[=WEIGHT],...",
        help="compare frames, captions, meaning, state or action (default: the first three)",
    )


def add_min_score_argument(parser: argparse.ArgumentParser) -> None:
    """Add --min-score."""
    parser.add_argument(
        "--min-score",
        type=parse_min_score,
        metavar="SCORE",
        help="take only episodes that a search scores so high, 0 to 1; auto: as long as they are relevant",
    )


def _whole_number(meaning: str, least: int = 0, most: int = 10**12 - 1) -> Callable[[str], int]:
    """A reader of whole numbers; any other text is no such value, as an error says."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= 12
        if not is_number or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:100]!r} is not {meaning}")
        return int(text)

    return read


def _bounded_number(meaning: str, least: float, most: float) -> Callable[[str], float]:
    """A reader of numbers; any other text is no such value, as an error says."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:  # false for nan, too
            raise argparse.ArgumentTypeError(f"{text[:100]!r} is not {meaning}")
        return number

    return read


episode_count = _whole_number("a number of episodes; give a whole number from 0 on")
parse_worker_count = _whole_number("a number of workers; give a whole number from 1 on", 1, 99_999)
seed_number = _whole_number("a seed; give a whole number from 0 on")
parse_port_number = _whole_number("a port; give a number from 0 to 65535", most=65_535)
parse_usd_amount = _bounded_number(
    "an amount of US dollars; give a number from 0 on, such as 2.50", 0.0, 1e12
)
positive_seconds = _bounded_number("a number of seconds; give a number from 0 on, such as 120", 0.0, 1e9)
rate_hz = _bounded_number("a rate in Hz; give a number above 0", math.ulp(0.0), 1e6)
_read_score = _bounded_number("a score; give a number from 0 to 1, or auto", 0.0, 1.0)


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --rate and --spec, which say of a dataset what it does not say of itself."""
    parser.add_argument(
        "--rate",
        type=rate_hz,
        metavar="HZ",
        help="take this as the recording rate, where the source does not store it",
    )
    parser.add_argument(
        "--spec",
        type=parse_user_path,
        default="",
        metavar="FILE",
        help="read what the dataset does not say of itself from a file, as `ares ingest --show-spec` prints",
    )


def parse_min_score(text: str) -> float | str:
    """Parse the value of --min-score: a number from 0 to 1, or "auto"."""
    return text if text == "auto" else _read_score(text)


def parse_torch_device(text: str) -> str:
    """Parse the value of --device by its form; whether there is such a device is known when torch is imported."""
    if text and not re.fullmatch(r"all|(cpu|cuda|mps|xpu|hpu)(:\d{1,3})?", text):
        hint = did_you_mean(text, ["cpu", "cuda", "mps", "all"])
        raise argparse.ArgumentTypeError(
            f"no device {text!r}: {hint}there are: cpu, cuda, cuda:NUMBER, mps, all"
        )
    return text


def open_workspace(args: argparse.Namespace, create: bool = False) -> Workspace:
    """Return the workspace that the arguments name; `main` closes it when the command ends.

    Args:
        args: Parsed arguments.
        create: Create a missing workspace when it is first used. A command that only reads must not leave an empty
            one behind.

    Raises:
        RequestError: There is no workspace, or the folder holds something else.
    """
    from ares.io import local_file_path
    from ares.settings import name_ignored_config, settings_from_environment
    from ares.store import workspace_exists
    from ares.workspace import new_workspace, open_workspace as open_at

    settings = settings_from_environment()
    path = local_file_path(args.workspace or settings.workspace)
    name_ignored_config(path)
    workspace = new_workspace(path, settings) if create else open_at(path, settings, create=False)
    args.workspace_handle = workspace
    # The doctor names what is incomplete, and repairs it when it is told to.
    may_complete = args.command != "doctor" and (not create or workspace_exists(path))
    if may_complete and workspace.stores.annotations.position().has_purge:
        from ares.curation import complete_purges

        complete_purges(workspace.stores)
    return workspace


def add_yes_argument(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    parser.add_argument("--yes", action="store_true", help="do it without a question on the terminal")


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Add --trust-answers-of."""
    parser.add_argument(
        "--trust-answers-of",
        action="append",
        default=[],
        metavar="NAME",
        help="let the answers count that the file has of this person, as often as needed; `ares undo` takes it back",
    )


def describe_uncounted(uncounted: Mapping[str, int]) -> list[str]:
    """The line about answers of files that do not count, by person; none where all do."""
    people = ", ".join(f"{visible(name)} {count}" for name, count in uncounted.items())
    option = " ".join(f"--trust-answers-of {shlex.quote(visible(name))}" for name in uncounted)
    count = count_of(sum(uncounted.values()), "answer")
    line = f"{count} from elsewhere not counted: {people}; the same file with {option} lets them count"
    return [line] if people else []


def describe_measured_lines(measured: Mapping[str, Any]) -> list[str]:
    """The lines about what people measured, by dataset and question."""
    return [
        f"{visible(dataset)}: {visible(share['says'])}"
        for dataset, shares in measured.items()
        for share in shares.values()
    ]


def ask_for_confirmation(args: argparse.Namespace, question: str) -> bool:
    """Ask on the terminal; --yes is the answer yes.

    Returns:
        Whether the answer is yes.

    Raises:
        RequestError: There is no terminal to ask on, and no --yes.
    """
    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise RequestError("nothing was done, as there is no terminal to ask on", "give --yes")
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add EPISODE_ID|FILE and --where."""
    add_id_arguments(parser)
    parser.add_argument(
        "--where",
        default="",
        metavar="SQL",
        help="take only episodes that fulfil this filter, such as \"dataset = 'lids'\" or \"in_set('accepted')\"",
    )


def add_id_arguments(parser: argparse.ArgumentParser) -> None:
    """Add EPISODE_ID|FILE."""
    parser.add_argument(
        "episodes",
        nargs="*",
        metavar="EPISODE_ID|FILE",
        help="ids of episodes, or text files of ids, whose names have a dot or a slash",
    )


def read_named_ids(args: argparse.Namespace) -> list[str]:
    """The ids that the arguments name, with those of files. Raises RequestError for a file that has none."""
    from ares.workspace import read_id_file

    ids = list[str]()
    for word in args.episodes:
        if " " in word and not Path(word).expanduser().exists():
            raise RequestError(
                "an id has no spaces", f"{shorten(word, 60)!r}; --search TEXT selects by a text"
            )
        listed = read_id_file(Path(word).expanduser()) if "." in word or "/" in word else [word]
        if not listed:
            raise RequestError("the list of ids is empty", repr(word))
        ids += listed
    return ids


def parse_selection(args: argparse.Namespace) -> EpisodeSelection:
    """The selection that the arguments name. Raises RequestError for an unreadable file."""
    from ares.jobs import EpisodeSelection

    return EpisodeSelection(where=args.where, ids=read_named_ids(args), dataset=getattr(args, "dataset", ""))


def is_pending(workspace: Workspace, action: Action) -> bool:
    """Whether the tables do not show an action yet, as another job writes now."""
    from ares.store import applied_action

    return applied_action(workspace.stores.tables) < action.number


def describe_pending(pending: bool) -> str:
    """The end of a line about an action."""
    return "; the job that writes now will show it when it ends" if pending else ""
