"""A clock of this process that jumps back and forward while a command runs, by seconds, hours and years."""

from __future__ import annotations

import datetime as datetime_module
import random
import sys
import time
from typing import Any

_JUMPS = (-400 * 86_400.0, -7_200.0, -90.0, -2.0, 0.0, 2.0, 90.0, 7_200.0, 400 * 86_400.0)
_OFTEN = 0.2
_PACKAGES = ("ares", "ingest", "annotators", "app")
_Real = datetime_module.datetime


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
