"""What a user sees where a command is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.workspaces import CommandResult

Refused = Callable[..., str]


@pytest.fixture
def refused(run_ares: Callable[..., CommandResult]) -> Refused:
    """The one line with which a command is refused, without the position in a filter below it."""

    def run(*arguments: object, status: int = 2) -> str:
        done = run_ares(*arguments)
        line, *pointer = done.err.splitlines()
        assert (done.status, done.out) == (status, ""), done
        assert line.startswith("ares") and len(line) < 1_000 and "bug of ARES" not in line, done.err
        assert not pointer or (len(pointer) == 2 and pointer[1].strip() == "^"), done.err
        return line

    return run
