"""The parser of arguments: an error is one line with the nearest name, and a word of another tool says what to use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ares.console import visible_lines, write_stderr
from ares.registry import did_you_mean
from ares_app.cli.typed_words import TYPED_WORDS

_EXIT_REFUSED = 2


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses abbreviated options, suggests the nearest name, and says what is wrong in one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**options, "allow_abbrev": False})
        self._is_intermixed = False

    def set_examples(self, *examples: str) -> None:
        """Show commands at the end of the help."""
        self.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])

    def print_help(self, file: Any = None) -> None:
        """Write the help; unlike in argparse, an output that cannot be written is an error."""
        (file or sys.stdout).write(visible_lines(self.format_help()))

    def error(self, message: str) -> NoReturn:
        """Print what is wrong as one line and exit with status 2."""
        text = " ".join(message.split())
        if text.endswith("arguments are required: ACTION"):
            text = f"{text} ({', '.join(self.actions_by_name())})"
        separator = "" if text.endswith("?") else ";"
        write_stderr(f"{self.prog}: {text}{separator} see `{self.prog} --help`")
        raise SystemExit(_EXIT_REFUSED)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; an unknown one is refused by the command that it was given to."""
        arguments = list(sys.argv[1:] if args is None else args)
        parsed, extras = self.parse_known_args(arguments, namespace)
        if extras:
            command = self._command_of(arguments)
            command.error(command._describe_unknown(extras))
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known; a positional that stands behind an option is parsed, too."""
        parsed, extras = super().parse_known_args(args, namespace)
        is_positional = extras and not any(text.startswith("-") for text in extras)
        if not is_positional or self._is_intermixed or self.actions_by_name():
            return parsed, extras
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            if meant := TYPED_WORDS.get(f"{self.prog} {value}"):
                raise argparse.ArgumentError(None, f"no {kind} {value!r}: {meant}")
            names = [str(choice) for choice in action.choices]
            of_option = TYPED_WORDS.get(f"{self.prog} {''.join(action.option_strings[-1:])}", "")
            hint = f"{did_you_mean(str(value), names)}there are: {', '.join(names)}"
            hint += f"; {of_option}" if of_option else ""
            raise argparse.ArgumentError(None, f"no {kind} {value!r}: {hint}")

    def actions_by_name(self) -> dict[str, CommandParser]:
        """Parsers of the commands or actions below this one."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }

    def options_by_flag(self) -> dict[str, argparse.Action]:
        """Options by each of their flags."""
        return {flag: action for action in self._actions for flag in action.option_strings}

    def _command_of(self, arguments: Sequence[str]) -> CommandParser:
        """The innermost parser that the arguments name."""
        parser = self
        for argument in arguments:
            parser = parser.actions_by_name().get(argument, parser)
        return parser

    def _describe_unknown(self, extras: Sequence[str]) -> str:
        option = next((text for text in extras if text.startswith("-")), "").partition("=")[0]
        if not option:
            meant = TYPED_WORDS.get(f"{self.prog} *", "")
            return f"{extras[0]!r} is an argument too many" + (f": {meant}" if meant else "")
        if instead := TYPED_WORDS.get(f"{self.prog} {option}"):
            return f"no option {option!r}: {instead}"
        known = [flag for flag in self.options_by_flag() if flag.startswith("--")]
        longer = [name for name in known if name.startswith(option)] if option.startswith("--") else []
        hint = f"did you mean {longer[0]!r}?" if longer else did_you_mean(option, known).strip()
        if "--write-options" in known:
            hint = f"{hint} `--write-options FILE` writes a file with the further ones, for --options".strip()
        return f"no option {option!r}" + (f": {hint}" if hint else "")
