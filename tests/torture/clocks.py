"""Commands while the clock jumps back and forward by seconds, hours and years: they do what they do otherwise."""

from __future__ import annotations

import datetime as datetime_module
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tests.torture.commands import COMMANDS, Laboratory, read_in_child
from tests.torture.trials import Attempt, Trial

_JUMPS = (-400 * 86_400.0, -7_200.0, -90.0, -2.0, 0.0, 2.0, 90.0, 7_200.0, 400 * 86_400.0)
_OFTEN = 0.2
_PACKAGES = ("ares", "ingest", "annotators", "app")
_Real = datetime_module.datetime
_SEQUENCE = 5  # commands one after the other under one clock
_NAMES = sorted(name for name, command in COMMANDS.items() if command.start == "small")


def clock_attempts(laboratory: Laboratory, seed: str) -> Iterator[Attempt]:
    """Random commands one after the other while the clock jumps, compared with a clock that goes."""
    for number in itertools.count():
        names = random.Random(f"{seed} clocks {number}").choices(_NAMES, k=_SEQUENCE)
        yield partial(_try_commands, laboratory, names, f"{seed} {number}")


def _try_commands(laboratory: Laboratory, names: Sequence[str], seed: str) -> Trial:
    ends, states = [], []
    for prepare in (lambda: None, partial(jump_clock, random.Random(seed))):
        workspace = laboratory.copy("small")
        ends.append([laboratory.run(COMMANDS[name].words, workspace, prepare=prepare) for name in names])
        states.append(read_in_child(workspace))
    problem = next((end.fault for end in ends[1] if end.fault), "")
    for name, still, jumped in zip(names, *ends, strict=True):
        if not problem and still.status != jumped.status:
            problem = f"{name} ended with {jumped.status} in place of {still.status}: {jumped.errors[-300:]}"
    problem = problem or states[1].difference(states[0])
    seconds = sum(end.seconds for end in ends[1])
    return Trial(group="the clock jumps", name=", ".join(names), problem=problem, seconds=seconds)


def jump_clock(rng: random.Random) -> None:
    """Let `time.time` and `datetime.now` of this process jump; what SQLite and Lance ask the kernel for does not."""
    real, offset = time.time, [0.0]

    def now() -> float:
        if rng.random() < _OFTEN:
            offset[0] = rng.choice(_JUMPS)
        return real() + offset[0]

    class IsDatetime(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, _Real)

    class JumpingDatetime(_Real, metaclass=IsDatetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return _Real.fromtimestamp(now(), tz)

    vars(time).update(time=now, time_ns=lambda: int(now() * 1e9))
    vars(datetime_module)["datetime"] = JumpingDatetime
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES and vars(module).get("datetime") is _Real:
            vars(module)["datetime"] = JumpingDatetime
