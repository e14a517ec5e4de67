"""`ares completion`: the completion scripts of shells, and the words that may follow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from ares.errors import AresError
from ares_app.cli.arguments import add_common_options
from ares_app.cli.parser import CommandParser

_SHELLS = ("bash", "zsh", "fish")


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.set_defaults(run=run_completion)
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=f"the shell: {', '.join(_SHELLS)}")
    add_common_options(parser)


def run_completion(args: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["ares"], shell=args.shell))
    return 0


def answer_shell_completion(parser: CommandParser, command: str) -> None:
    """Write the words that may follow on the command line to the shell that asks, and end the process.

    Args:
        parser: Parser of all commands, with the arguments of the command.
        command: Command on the command line, or "".
    """
    import argcomplete

    _add_completers(parser.actions_by_name().get(command, parser), command)
    # Without words of ours the shell completes names of files.
    argcomplete.autocomplete(parser, always_complete_options=False)


def _add_completers(parser: CommandParser, command: str) -> None:
    """Let argcomplete find the names that arguments may have, also those of the actions below a command."""
    for action in parser._actions:
        names = _NAMES.get((command, action.dest)) or _NAMES.get(("", action.dest))
        if names is not None:
            action.completer = _complete_by_names(names)  # type: ignore[attr-defined]
    for below in parser.actions_by_name().values():
        _add_completers(below, command)


def _complete_by_names(names: Callable[[str], Iterable[str]]) -> Callable[..., list[str]]:
    def complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        try:
            return list(names(getattr(parsed_args, "workspace", None) or ""))
        except (AresError, OSError):  # no workspace, or it cannot be read now
            return []

    return complete


def _plugin_names(kind: str, *others: str) -> Callable[[str], list[str]]:
    def names(workspace: str) -> list[str]:
        from ares import registry

        plugins: registry.Registry = getattr(registry, f"{kind}s")
        return [*others, *plugins.names()]

    return names


def _engine_names(workspace: str) -> Iterable[str]:
    from ares.jobs import ENGINE_NAMES

    return ENGINE_NAMES


def _rubric_names(workspace: str) -> list[str]:
    from ares_annotators.grade import list_shipped_rubrics

    return list_shipped_rubrics()


def _set_names(workspace: str) -> list[str]:
    """The sets of the workspace, read from its annotation store alone: the tables take half a second to open."""
    from ares.curation import Sets
    from ares.settings import settings_from_environment
    from ares.store import open_stores, workspace_exists

    settings = settings_from_environment()
    path = workspace or settings.workspace
    if not workspace_exists(path):
        return []
    stores = open_stores(path, settings, compare=False)
    try:
        return list(Sets(stores.annotations))
    finally:
        stores.close()


def _producer_choices(workspace: str) -> list[str]:
    return [f"{name}=" for name in _plugin_names("annotator")(workspace)]


# By command and name of the argument; "" is every command.
_NAMES: dict[tuple[str, str], Callable[[str], Iterable[str]]] = {
    ("annotate", "name"): _plugin_names("annotator"),
    ("ingest", "format"): _plugin_names("ingester", "auto"),
    ("export", "format"): _plugin_names("exporter"),
    ("export", "set"): _set_names,
    ("set", "name"): _set_names,
    ("set", "a"): _set_names,
    ("set", "b"): _set_names,
    ("use", "choices"): _producer_choices,
    ("rubric", "rubric"): _rubric_names,
    ("", "by"): _plugin_names("ranker"),
    ("", "engine"): _engine_names,
}
