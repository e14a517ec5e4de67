"""Entry point of the `ares` command; it imports only the selected command and prints an error of ARES as one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ares.errors import AresError


class CommandEntry(NamedTuple):
    """Where a command is defined, and its help.

    Attributes:
        module: Module with `add_arguments(parser)` and `run(args) -> exit status`.
        help: One line for `ares --help`.
    """

    module: str
    help: str


COMMANDS = {
    "ingest": CommandEntry("app.cli.data.ingest", "read datasets into the workspace"),
    "annotate": CommandEntry(
        "app.cli.annotations.annotate", "run annotators over the episodes that lack them"
    ),
    "search": CommandEntry("app.cli.curation.search", "find moments by text, image or episode"),
    "show": CommandEntry("app.cli.curation.show", "everything known of one episode"),
    "set": CommandEntry("app.cli.curation.set", "make, list, show and compare frozen sets"),
    "use": CommandEntry("app.cli.curation.use", "choose the makers whose values fill the columns"),
    "export": CommandEntry("app.cli.data.export", "write a set as a training dataset"),
    "rubric": CommandEntry("app.cli.annotations.rubric", "show and check rubrics"),
    "status": CommandEntry("app.cli.workspace.status", "what the workspace holds"),
    "doctor": CommandEntry(
        "app.cli.workspace.doctor", "check the stores against each other, and repair them"
    ),
    "app": CommandEntry("app.cli.serve.app", "open the dashboard"),
    "demo": CommandEntry("app.cli.serve.demo", "the whole job on the sample episodes"),
}

# These build no DataFrame; as programs they skip the import of pandas, which takes a second.
_WITHOUT_PANDAS = ("ingest", "status")


def build_parser(selected: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Args:
        selected: Command whose arguments are added. The modules of the other commands are not imported.
    """
    from ares import __version__

    parser = argparse.ArgumentParser(prog="ares", description="Curate robot episodes for training.")
    parser.add_argument("--version", action="version", version=f"ares {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, text) in COMMANDS.items():
        command = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == selected:
            module = import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 on success, 1 when some items failed, 2 when the request was wrong."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    selected = next((argument for argument in arguments if not argument.startswith("-")), "")
    args = build_parser(selected).parse_args(arguments)
    if argv is None and args.command in _WITHOUT_PANDAS:
        from ares.process_tuning import without_pandas

        without_pandas()
    try:
        return int(args.run(args))
    except AresError as error:
        from app.cli.output import print_error

        print_error(args.command, error)
        return 2
    except KeyboardInterrupt:
        print(f"ares {args.command}: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    finally:
        if "workspace_handle" in args:
            args.workspace_handle.close()


if __name__ == "__main__":
    sys.exit(main())
