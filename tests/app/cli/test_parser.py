"""The command line answers mistakes with what was meant, and takes options wherever they are typed."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from ares.console import Verbosity
from ares.workspace import Workspace
from ares_app.cli.main import COMMAND_GROUPS, COMMANDS, build_parser, find_selected_command, main
from ares_app.cli.typed_words import TYPED_WORDS
from tests.app.cli.conftest import Refused

Capture = pytest.CaptureFixture[str]


def parse(line: str) -> argparse.Namespace:
    arguments = shlex.split(line)
    namespace: argparse.Namespace = build_parser(find_selected_command(arguments)).parse_args(arguments)
    return namespace


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "serch mug",
            "ares: no command 'serch': did you mean 'search'? there are: ingest, check, fix, audit",
        ),
        ("search --limt 3 mug", "ares search: no option '--limt': did you mean '--limit'? see"),
        ("search --lim 3 mug", "ares search: no option '--lim': did you mean '--limit'?"),
        ("set lst", "ares set: no action 'lst': did you mean 'list'?"),
        ("merge a b", "ares: no command 'merge': `ares set union NEW SET SET` joins sets; `ares export"),
        ("stats", "ares: no command 'stats': `ares statistics task` counts by task"),
        ("set rm x", "ares set: no action 'rm': `ares set delete NAME` deletes a set"),
        (
            "annotate caption --dtype x",
            "`--write-options FILE` writes a file with the further ones",
        ),
        ("set create x --wher y", "ares set create: no option '--wher': did you mean '--where'?"),
        ("search mug --output cvs", "ares search: no format 'cvs': did you mean 'csv'?"),
        ("ingest x --media cpoy", "did you mean 'copy'?"),
        ("search mug shelf", "ares search: 'shelf' is an argument too many"),
        ("annotate motion --device tpu", "no device 'tpu'"),
        ("app --port 99999", "'99999' is not a port; give a number from 0 to 65535"),
        ("annotate motion --budget nan", "'nan' is not an amount of US dollars"),
        ("ingest x --rate nan", "'nan' is not a rate in Hz"),
        ("ingest x --rate 0", "'0' is not a rate in Hz"),
    ],
)
def test_a_mistake_is_one_line_with_what_was_meant(line: str, message: str, refused: Refused) -> None:
    assert message in refused(*shlex.split(line))


def test_each_word_of_other_tools_is_answered_with_commands_that_are_there() -> None:
    typed = {
        *(
            "merge",
            "delete",
            "list",
            "info",
            "stats",
            "query",
            "filter",
            "import",
            "rm",
            "ls",
            "view",
            "serve",
        ),
        *("label", "dedupe", "split"),
    }
    assert {f"ares {word}" for word in typed} <= set(TYPED_WORDS)
    for word, answer in TYPED_WORDS.items():
        commands = re.findall(r"`ares ([^`]+)`", answer)
        assert (commands or answer.startswith("use --")) and word.removeprefix("ares ") not in COMMANDS
        for command in commands:
            if command != "--version":
                parse(command)


def test_every_command_is_in_a_group_of_the_help(capsys: Capture) -> None:
    assert sorted(name for names in COMMAND_GROUPS.values() for name in names) == sorted(COMMANDS)
    assert main([]) == 0
    out = capsys.readouterr().out
    titles = [out.index(f"\n{title}:\n") for title in COMMAND_GROUPS]
    assert len(titles) == 4 and titles == sorted(titles)
    assert "ares set create" in out and "ares export" in out


@pytest.mark.parametrize(
    "line",
    [
        "search -w W --json mug --limit 3",
        "-w W --json search --limit 3 mug",
        "--json search mug -w W --limit=3",
        "search --limit 3 --json -w W -- mug",
    ],
)
def test_options_stand_before_and_behind_commands_and_texts(line: str) -> None:
    args = parse(line)
    assert (args.workspace, args.output, args.text, args.limit) == ("W", "json", "mug", 3)


def test_options_stand_between_arguments() -> None:
    assert parse("ingest A --media copy B").source == ["A", "B"]
    assert parse("annotate caption --limit 1 grade -q").name == ["caption", "grade"]
    assert parse("annotate caption --limit 1 grade -q").verbosity is Verbosity.QUIET


def test_the_filters_of_the_examples_can_be_evaluated(contested: Workspace) -> None:
    examples = [example for entry in COMMANDS.values() for example in entry.examples]
    filters = [parse(example.removeprefix("ares ")).where for example in examples if "--where" in example]
    assert "dataset = 'bridge'" in filters
    for where in filters:
        contested.episodes.where(where).ids()


def test_an_audit_that_is_stopped_says_what_stays() -> None:
    args = parse("audit instructions")
    assert args.describe_stop(args) == "what was stored until then stays; run the same command again"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_examples_that_can_be_typed(command: str, capsys: Capture) -> None:
    assert COMMANDS[command].examples
    for example in COMMANDS[command].examples:
        typed = example.removeprefix("source <(").removesuffix(")").partition(" > ~")[0]
        assert parse(typed.removeprefix("ares ")).command == command
    with pytest.raises(SystemExit):
        main(["help", command])
    assert COMMANDS[command].examples[0] in capsys.readouterr().out
