"""Main: the `ares` command; loads only the command that was asked for, turns ARES's errors into one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from ares.errors import AresError, FilterError

COMMANDS = {
    "ingest": "read datasets into the workspace",
    "annotate": "run annotators over the episodes that lack them",
    "search": "find moments by text, image or episode",
    "show": "everything known of one episode",
    "set": "make, list, show and compare frozen sets",
    "export": "write a set as a training dataset",
    "rubric": "show and check rubrics",
    "status": "what the workspace holds",
    "doctor": "check the stores against each other, and mend them",
    "app": "open the dashboard",
    "demo": "the whole job on the sample episodes",
}

# They make no DataFrame, so that as programs they need not wait a second for pandas.
_WITHOUT_PANDAS = ("ingest", "status")
# They write through many threads for a long time.
_WITH_FEW_HEAPS = ("ingest", "annotate", "doctor")


def build(chosen: str = "") -> argparse.ArgumentParser:
    """The parser; only the chosen command's arguments are filled in, so that the others cost no import."""
    from ares import __version__

    parser = argparse.ArgumentParser(prog="ares", description="Curate robot episodes for training.")
    parser.add_argument("--version", action="version", version=f"ares {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            module = import_module(f"app.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 when done, 1 when some items failed, 2 when the request was wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in words if not word.startswith("-")), "")
    args = build(chosen).parse_args(words)
    if argv is None and args.command in _WITHOUT_PANDAS:
        from ares.store.lean import without_pandas

        without_pandas()
    if argv is None and args.command in _WITH_FEW_HEAPS:
        from ares.store.lean import few_heaps

        few_heaps()
    try:
        return int(args.run(args))
    except AresError as error:
        print(f"ares {args.command}: {_one_line(error)}", file=sys.stderr)
        if isinstance(error, FilterError) and error.pointer:
            print(error.pointer, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"ares {args.command}: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    finally:
        if "opened" in args:
            args.opened.close()


def _one_line(error: AresError) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
