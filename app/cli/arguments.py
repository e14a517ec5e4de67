"""Arguments that several commands share: the workspace, selected episodes, and confirmation."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.output import DOCUMENT_FORMATS, ROW_FORMATS, Block, OutputTable, answer
from ares.console import Verbosity, count_of, print_message, visible
from ares.errors import RequestError
from ares.registry import did_you_mean, suggest_column

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.jobs import EpisodeSelection
    from ares.store import EpisodeTable
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
_OUTPUTS = ("fix", "write_baseline", "reasons", "write_options")


def refuse_output_urls(args: argparse.Namespace) -> None:
    """Raise RequestError for an option that names a URL to write."""
    from ares.io import local_output

    for name in _OUTPUTS:
        local_output(getattr(args, name, ""))


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whether links may lead out of a dataset."""
    parser.add_argument(
        "--follow-links",
        action="store_true",
        help="read files also where a symbolic link leads out of the dataset or the source",
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
        help="only episodes that a search scores so high, 0 to 1; auto: as long as they are relevant",
    )


def parse_min_score(text: str) -> float | str:
    """Parse the value of --min-score: a number from 0 to 1, or "auto"."""
    return (
        text
        if text == "auto"
        else _parse_bounded_number(text, 0.0, 1.0, "a score; give a number from 0 to 1, or auto")
    )


def episode_count(text: str) -> int:
    """Parse the value of --limit: an integer from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of episodes; give a whole number from 0 on"
        )
    return int(text)


def parse_torch_device(text: str) -> str:
    """Parse the value of --device by its form; whether there is such a device is known when torch is imported."""
    if text and not re.fullmatch(r"all|(cpu|cuda|mps|xpu|hpu)(:\d{1,3})?", text):
        hint = did_you_mean(text, ["cpu", "cuda", "mps", "all"])
        raise argparse.ArgumentTypeError(
            f"no device {text!r}: {hint}there are: cpu, cuda, cuda:NUMBER, mps, all"
        )
    return text


def parse_worker_count(text: str) -> int:
    """Parse the value of --workers: an integer from 1 on."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) < 100_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of workers; give a whole number from 1 on"
        )
    return int(text)


def parse_worker_resources(text: str) -> dict[str, float]:
    """Parse the value of --per-worker: numbers by name."""
    pairs = [part.partition("=") for part in text.split(",")]
    meaning = "a number; give for example cpus=2,memory_gb=8,gpus=0.5"
    return {name.strip(): _parse_bounded_number(number, 0.0, 1e6, meaning) for name, _, number in pairs}


def seed_number(text: str) -> int:
    """Parse the value of --seed: an integer from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a seed; give a whole number from 0 on")
    return int(text)


def parse_usd_amount(text: str) -> float:
    """Parse the value of --budget: US dollars from 0 on."""
    return _parse_bounded_number(
        text, 0.0, 1e12, "an amount of US dollars; give a number from 0 on, such as 2.50"
    )


def parse_port_number(text: str) -> int:
    """Parse the value of --port: 0 to 65535."""
    if not text.isascii() or not text.isdigit() or int(text[:12]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to 65535")
    return int(text)


def rate_hz(text: str) -> float:
    """Parse the value of --rate: Hz above 0."""
    rate = _parse_bounded_number(text, 0.0, 1e6, "a rate in Hz; give a number above 0")
    if not rate:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate in Hz; give a number above 0")
    return rate


def _parse_bounded_number(text: str, least: float, most: float, meaning: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:  # false for nan, too
        raise argparse.ArgumentTypeError(f"{text!r} is not {meaning}")
    return number


def open_workspace(args: argparse.Namespace, create: bool = False) -> Workspace:
    """Return the workspace that the arguments name; `main` closes it when the command ends.

    Args:
        args: Parsed arguments.
        create: Create a missing workspace when it is first used. A command that only reads must not leave an empty
            one behind.

    Raises:
        RequestError: There is no workspace, or the folder holds something else.
    """
    from ares.settings import name_ignored_config, settings_from_environment
    from ares.store import workspace_exists
    from ares.workspace import new_workspace, open_workspace as open_at

    settings = settings_from_environment()
    path = args.workspace or settings.workspace
    name_ignored_config(path)
    workspace = new_workspace(path, settings) if create else open_at(path, settings, create=False)
    args.workspace_handle, args.completed_purges = workspace, ()
    # The doctor names what is incomplete, and repairs it when it is told to.
    may_complete = args.command != "doctor" and (not create or workspace_exists(path))
    if may_complete and workspace.stores.annotations.position().has_purge:
        from ares.curation import complete_purges

        args.completed_purges = complete_purges(workspace.stores)
    return workspace


def name_workspace_sources(args: argparse.Namespace, folder: Path) -> None:
    """Set `source` and `options` of the arguments: the datasets of the workspace, with what they were read with.

    Args:
        args: Parsed arguments without a source.
        folder: An empty folder, for a file of options and specs.

    Raises:
        RequestError: There is no workspace, or none of its sources is where it was.
    """
    from ares.contract import DatasetKey, read_contracts
    from ares.io import existing_path
    from ares.settings import settings_from_environment
    from ares.store import workspace_exists
    from ingest.discovery import stored_datasets

    if not args.workspace and not workspace_exists(settings_from_environment().workspace):
        raise RequestError(
            "no SOURCE is given", "name a folder or a file, or with -w a workspace whose sources are checked"
        )
    stores = open_workspace(args).stores
    options, missing = dict[str, dict[str, Any]](), list[str]()
    for dataset in stored_datasets(stores):
        key = DatasetKey(dataset.format, dataset.dataset, dataset.version)
        facts: Any = read_contracts(stores.annotations, key).source
        path = str(facts.get("folder") or dataset.folder or dataset.source)
        try:
            existing_path(path)
        except RequestError:
            missing.append(f"{dataset.dataset} ({path})")
            continue
        stated = facts.get("options") or {}
        own = {"rate": stated.get("rate_hz"), "cameras": stated.get("cameras")}
        if stated.get("spec"):
            spec = folder / f"spec-{len(options)}.yaml"
            spec.write_text(json.dumps(stated["spec"]))  # JSON is YAML
            own["spec"] = str(spec)
        # Several datasets of one folder are read as they are recognised.
        own = {} if path in options else {"format": dataset.format, "dataset": dataset.dataset, **own}
        options[path] = {name: value for name, value in own.items() if value}
    listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    if not options:
        why = f"not there: {listed}; `ares doctor --relocate OLD=NEW`" if missing else "it has no episodes"
        raise RequestError("the workspace has no sources that can be checked", f"{why}, or name a SOURCE")
    if missing:
        print_message(f"not checked, as they are not where they were: {listed}")
    print_message(f"checking the sources of the workspace: {', '.join(options)}")
    (folder / "options.yaml").write_text(json.dumps({"datasets": options}))
    args.source, args.options = [*options], str(folder / "options.yaml")


def add_yes_argument(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Add --trust-answers-of."""
    parser.add_argument(
        "--trust-answers-of",
        action="append",
        default=[],
        metavar="NAME",
        help="let the answers count that the file has of this person (repeatable); `ares undo` takes it back",
    )


def describe_uncounted(uncounted: Mapping[str, int]) -> list[str]:
    """The line about answers of files that do not count, by person; none where all do."""
    people = ", ".join(f"{visible(name)} {count}" for name, count in uncounted.items())
    option = " ".join(f"--trust-answers-of {shlex.quote(visible(name))}" for name in uncounted)
    count = count_of(sum(uncounted.values()), "answer")
    line = f"{count} from elsewhere not counted: {people}; the same file with {option} lets them count"
    return [line] if people else []


def ask_for_confirmation(args: argparse.Namespace, question: str) -> bool:
    """Ask on the terminal; --yes is the answer yes.

    Returns:
        Whether the answer is yes.

    Raises:
        RequestError: There is no terminal to ask on, and no --yes.
    """
    from ares.errors import RequestError

    if args.yes:
        return True
    if not sys.stdin.isatty():
        raise RequestError("nothing was done, as there is no terminal to ask on", "give --yes")
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add EPISODE_ID, --where, --ids, --set and --dataset."""
    parser.add_argument("episode_ids", nargs="*", metavar="EPISODE_ID", help="ids of episodes")
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument("--ids", default="", metavar="FILE", help="episode ids, one a line")
    parser.add_argument("--set", default="", metavar="NAME", help="the episodes of a set")
    parser.add_argument("--dataset", default="", metavar="NAME", help="only episodes of this dataset")


def parse_selection(args: argparse.Namespace) -> EpisodeSelection:
    """The selection that the arguments name. Raises RequestError for ids given in two ways, or an unreadable file."""
    from ares.errors import RequestError
    from ares.jobs import EpisodeSelection
    from ares.workspace import IdFile

    if args.ids and args.episode_ids:
        raise RequestError("ids are given in a file or on the command line", f"not both: {args.ids!r}")
    return EpisodeSelection(
        where=args.where,
        ids=IdFile(Path(args.ids)) if args.ids else args.episode_ids,
        set=args.set,
        dataset=args.dataset,
        search=getattr(args, "search", ""),
        limit=getattr(args, "limit", None),
        min_score=getattr(args, "min_score", None),
    )


# How --columns is declared, which `read_columns` reads.
COLUMNS_OPTION: Mapping[str, Any] = {
    "default": "",
    "metavar": "NAME,...",
    "help": "further columns of the episodes, such as idle_share,metadata.operator, in every format",
}


def read_columns(
    args: argparse.Namespace, ids: Sequence[str], first: Sequence[str] = ()
) -> dict[str, dict[str, Json]]:
    """Values by episode of each column of --columns; `metadata` is the whole, `metadata.KEY` a value of it.

    Args:
        args: Parsed arguments.
        ids: The episodes; one that the workspace does not have has no values.
        first: Columns that are read in any case.

    Raises:
        RequestError: There is no such column, or no episode has such a key.
    """
    names = [*first, *(name.strip() for name in args.columns.split(",") if name.strip())]
    if not names:
        return {}
    from ares.store import ids_filter

    episodes = open_workspace(args).stores.tables.episodes
    keys = {name: name.removeprefix(_METADATA_KEY) for name in names if name.startswith(_METADATA_KEY)}
    stored = dict.fromkeys(["episode_id", *("metadata" if name in keys else name for name in names)])
    known = {**episodes.columns(), "metadata": "string"}
    for name in stored:
        if name not in known:
            hint = f"{suggest_column(name, known)}there are: {', '.join(known)}"
            raise RequestError(f"no column named {name!r}", hint)
    rows = episodes.read_columns([*stored], ids_filter(ids)).to_pylist()
    if "metadata" in stored:
        _read_metadata(episodes, rows, keys)
    # Times as text, as JSON has them.
    return {
        name: {
            row["episode_id"]: value.isoformat() if hasattr(value := row[name], "isoformat") else value
            for row in rows
        }
        for name in names
    }


_METADATA_KEY = "metadata."


def _read_metadata(episodes: EpisodeTable, rows: Sequence[dict[str, Any]], keys: Mapping[str, str]) -> None:
    """Parse the metadata of rows, and add values of it. Raises RequestError for a key that no episode has.

    Args:
        episodes: The table of the rows.
        rows: The rows, which are changed.
        keys: By column its key in the metadata.
    """
    for row in rows:
        row["metadata"] = json.loads(row["metadata"])
        row.update({name: row["metadata"].get(key) for name, key in keys.items()})
    known = dict.fromkeys(key for row in rows for key in row["metadata"])
    for key in keys.values():
        text = json.dumps(key).replace("'", "''")
        if key not in known and not any(episodes.scan(["episode_id"], f"contains(metadata, '{text}: ')", 1)):
            raise RequestError(
                f"no episode has {key!r} in its metadata",
                f"{did_you_mean(key, known)}there are: {', '.join(_METADATA_KEY + key for key in known) or 'none'}",
            )


_ROWS_AT_ONCE, _TEXT_WIDTH = 5_000, 100


def answer_members(
    args: argparse.Namespace,
    document: Mapping[str, object],
    rows: Iterable[dict[str, Json]],
    lines: Callable[[], Iterable[str]],
) -> None:
    """Print the members of a set as a document, as rows, as a table of their episodes, or with --ids as bare lines.

    With --columns the rows, and the document below `rows`, have those columns too.
    """
    wide = _with_columns(args, rows) if args.columns and args.output != "table" else rows
    body = {**document, "rows": wide} if args.columns else document
    answer(args, body, lines if args.ids else lambda: _member_tables(args, rows), wide)


def _with_columns(args: argparse.Namespace, rows: Iterable[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    from ares.store import batched

    for batch in batched(rows, _ROWS_AT_ONCE):
        columns = read_columns(args, [str(row["episode_id"]) for row in batch])
        for row in batch:
            yield row | {name: values.get(str(row["episode_id"])) for name, values in columns.items()}


_MEMBER_COLUMNS = ("dataset", "split", "key", "instruction", "duration_seconds")


def _member_tables(args: argparse.Namespace, rows: Iterable[dict[str, Json]]) -> Iterator[Block]:
    """A table of members, some thousands at a time; a span has its seconds and its text."""
    from ares.store import batched

    count = 0
    for batch in batched(rows, _ROWS_AT_ONCE):
        columns = read_columns(args, [str(row["episode_id"]) for row in batch], _MEMBER_COLUMNS)
        more = [name for name in columns if name not in _MEMBER_COLUMNS]
        span, last = (("start", "end"), "text") if "text" in batch[0] else ((), "instruction")
        header = ("episode", *span, "dataset", "source key", *(() if span else ("duration",)), last, *more)
        table = []
        for row in batch:
            values = {name: column.get(str(row["episode_id"])) for name, column in columns.items()}
            table.append((*_member_row(row, values), *(values[name] for name in more)))
        yield OutputTable(table, () if count else header)
        count += len(batch)
    if not count:
        yield "no episodes"


def _member_row(row: Mapping[str, Json], values: Mapping[str, Json]) -> tuple[object, ...]:
    """The first cells of a member; one whose episode was removed says so."""
    has_episode = values["dataset"] is not None
    dataset = values["dataset"] if has_episode else "removed"
    origin = (dataset, f"{values['split'] or ''} {values['key'] or ''}".strip())
    text = str(row.get("text", values["instruction"]) or "")
    shown = text if len(text) <= _TEXT_WIDTH else f"{text[: _TEXT_WIDTH - 3]}..."
    if "text" in row:
        return (row["episode_id"], row["start_seconds"], row["stop_seconds"], *origin, shown)
    duration = f"{values['duration_seconds']:.2f} s" if has_episode else ""
    return (row["episode_id"], *origin, duration, shown)
