"""The words that may follow on the command line: commands, options, values of options, names of the workspace."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from app.cli.commands import COMMANDS
from app.cli.parser import CommandParser
from ares.errors import AresError


class Candidate(NamedTuple):
    """A word that may be typed next.

    Attributes:
        text: The word.
        help: What it is, one line, or "".
    """

    text: str
    help: str = ""


def complete(words: Sequence[str]) -> list[Candidate]:
    """Candidates for the last of the words behind `ares`; empty where a file or a free text is expected."""
    from app.cli.main import build_parser, selected_command

    *before, current = list(words) or [""]
    if not selected_command(before) and not current.startswith("-"):
        if before and before[-1] in ("-w", "--workspace"):
            return []
        return _starting_with(current, [Candidate(name, entry.help) for name, entry in COMMANDS.items()])
    position = _Position(build_parser(selected_command(before)), before)
    return _starting_with(current, position.candidates(current))


class _Position:
    """Where on the command line the next word stands.

    Args:
        parser: Parser of all commands.
        words: The words before it.
    """

    def __init__(self, parser: CommandParser, words: Sequence[str]) -> None:
        self._parser = parser
        self._command: list[str] = []
        self._workspace = ""
        self._option: argparse.Action | None = None
        self._positionals = 0
        for word in words:
            self._read(word)

    def _read(self, word: str) -> None:
        if self._option is not None:
            if self._option.dest == "workspace":
                self._workspace = word
            self._option = None
        elif word.startswith("-"):
            option = self._parser.options_by_flag().get(word)
            self._option = option if option and option.nargs != 0 else None
        elif word in self._parser.actions_by_name():
            self._parser = self._parser.actions_by_name()[word]
            self._command.append(word)
        else:
            self._positionals += 1

    def candidates(self, current: str) -> Iterable[Candidate]:
        """What may stand here, whatever is typed of it already."""
        flag, equals, _ = current.partition("=")
        if self._option is None and equals and flag in self._parser.options_by_flag():
            values = self._values(self._parser.options_by_flag()[flag])
            return [Candidate(f"{flag}={value.text}", value.help) for value in values]
        if self._option is not None:
            return self._values(self._option)
        if current.startswith("-"):
            return _option_candidates(self._parser)
        actions = self._parser.actions_by_name()
        if actions:
            return [Candidate(name) for name in actions]
        positionals = self._parser.positionals()
        if not positionals:
            return []
        position = min(self._positionals, len(positionals) - 1)
        if position < self._positionals and positionals[position].nargs not in ("+", "*"):
            return []
        return self._values(positionals[position])

    def _values(self, action: argparse.Action) -> list[Candidate]:
        if action.choices is not None:
            return [Candidate(str(choice)) for choice in action.choices]
        command = self._command[0] if self._command else ""
        names = _NAMES.get((command, action.dest)) or _NAMES.get(("", action.dest))
        try:
            return [Candidate(name) for name in names(self._workspace)] if names else []
        except (AresError, OSError):  # no workspace, or it cannot be read now
            return []


def _option_candidates(parser: CommandParser) -> Iterator[Candidate]:
    for flag, action in parser.options_by_flag().items():
        if flag.startswith("--") and action.help is not argparse.SUPPRESS:
            yield Candidate(flag, " ".join((action.help or "").replace("%%", "%").split()))


def _starting_with(prefix: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.text.startswith(prefix)]


def _plugin_names(kind: str, *others: str) -> Callable[[str], list[str]]:
    def names(workspace: str) -> list[str]:
        from ares import registry

        plugins: registry.Registry = getattr(registry, f"{kind}s")
        return [*others, *plugins.names()]

    return names


def _engine_names(workspace: str) -> list[str]:
    from ares.jobs import ENGINE_NAMES

    return list(ENGINE_NAMES)


def _rubric_names(workspace: str) -> list[str]:
    from annotators.grade import rubric_names

    return rubric_names()


def _set_names(workspace: str) -> list[str]:
    """The sets of the workspace, read from its annotation store alone: the tables take half a second to open."""
    from ares.curation import Sets
    from ares.settings import settings_from_environment
    from ares.store import open_stores, workspace_exists

    settings = settings_from_environment()
    path = workspace or settings.workspace
    if not workspace_exists(path):
        return []
    stores = open_stores(path, settings)
    try:
        return list(Sets(stores.annotations))
    finally:
        stores.close()


def _maker_choices(workspace: str) -> list[str]:
    return [f"{name}=" for name in _plugin_names("annotator")(workspace)]


# By command and name of the argument; "" is every command.
_NAMES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("annotate", "name"): _plugin_names("annotator"),
    ("ingest", "format"): _plugin_names("ingester", "auto"),
    ("export", "format"): _plugin_names("exporter"),
    ("export", "set"): _set_names,
    ("set", "name"): _set_names,
    ("set", "a"): _set_names,
    ("set", "b"): _set_names,
    ("use", "choices"): _maker_choices,
    ("rubric", "rubric"): _rubric_names,
    ("", "by"): _plugin_names("ranker"),
    ("", "engine"): _engine_names,
}
