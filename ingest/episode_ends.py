"""Where the episodes of a file end whose arrays hold several: by their ends, their lengths, or flags of each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.errors import SourceError
from ares_ingest.array_roles import guess_array_roles, match_last_part
from ares_ingest.base import EpisodeEntry, Item, failing_item

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ares_ingest.spec import DatasetSpec


# A longer array of flags is read by no one.
_MOST_STEPS = 100_000_000
_LENGTHS_NAME = "episode_lengths"
_ENDS_NAMES = ("episode_ends", "episode_end", "ends", _LENGTHS_NAME)
# Arrays of a value per step that is true at the last step of an episode.
_END_FLAGS = frozenset(
    {
        *("terminals", "terminal", "terminations", "terminated", "timeouts", "timeout", "truncations"),
        *("truncated", "dones", "done", "is_last", "is_terminal", "episode_done"),
    }
)


class EpisodeEnds(NamedTuple):
    """Where the episodes of a file end.

    Attributes:
        key: Array that says so, or the first of several; "" for none.
        ends: Step after the last one of each episode; () where the file is one episode.
        steps: Rows of its arrays of steps.
    """

    key: str = ""
    ends: tuple[int, ...] = ()
    steps: int = 0

    @property
    def num_unread(self) -> int:
        """Rows after the end of the last episode."""
        return max(self.steps - max(self.ends), 0) if self.ends else 0

    @property
    def num_items(self) -> int:
        """Episodes, at least one, and one item more for rows that are of no episode."""
        return max(len(self.ends), 1) + bool(self.num_unread)

    def items_of_unread_rows(self, entry: EpisodeEntry, path: str) -> Iterator[Item]:
        """A failing item for the rows after the last end, where there are some."""
        if self.num_unread:
            rows = f"{count_of(self.num_unread, 'row')} of {self.steps}, from row {max(self.ends)} on"
            error = SourceError(f"rows after the last end in {self.key} are not read", f"{path}: {rows}")
            yield failing_item(replace(entry, key=f"{entry.key}/rest").episode_id, path, error)


NO_ENDS = EpisodeEnds()


def find_ends_keys(keys: Iterable[str]) -> list[str]:
    """The arrays that seem to say where episodes end, by their names: the list of ends, or flags of each step."""
    keys = list(keys)
    ends = match_last_part(keys, _ENDS_NAMES)
    return [ends] if ends else list(filter(_is_flag, keys))


def count_array_rows(arrays: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each array of numbers; those that cannot be read are left out."""
    return {
        key: int(array.shape[0])
        for key, array in arrays.items()
        if not isinstance(array, SourceError | None) and array.shape and array.dtype.kind in "biuf"
    }


def find_steps_key(rows: Mapping[str, int], spec: DatasetSpec | None) -> str:
    """The array whose rows are the steps: the action, else the state, else one of the most frequent length.

    It is "" where those of known names have no row, and where no array has any. The observations may have one row
    more than there are actions.
    """
    roles = guess_array_roles(dict.fromkeys(rows, 2))
    slices = (*spec.action, *spec.state) if spec else ()
    signals = [key for key in (*(part.key for part in slices), *roles.action, *roles.state) if key in rows]
    counts = Counter(rows[key] for key in (signals or rows) if rows[key])
    most = max(counts, key=lambda count: (counts[count], count), default=0)
    return next((key for key in signals or rows if rows[key] and (signals or rows[key] == most)), "")


def read_episode_ends(
    arrays: Mapping[str, Any],
    rows: Mapping[str, int],
    where: str,
    key: str = "",
    spec: DatasetSpec | None = None,
    *,
    must_rise: bool = True,
) -> EpisodeEnds:
    """Where the episodes of a file end, by the array that is stated, else by a list or flags whose names say so.

    Args:
        arrays: Arrays by key, of which only those that say it are read.
        rows: Rows of the arrays of numbers, by key.
        where: The file, for messages.
        key: The array that says it by the spec or a layout, "" for those of known names.
        spec: What the user knows of the signals, or None.
        must_rise: Whether a list that does not rise is an error; else its episodes fail one by one.

    Raises SourceError for a list of anything else than whole numbers, or longer than all arrays.
    """
    if not (keys := [key] if key in arrays else find_ends_keys(arrays)):
        return NO_ENDS
    rows = {name: count for name, count in rows.items() if name != keys[0]}
    steps = rows.get(find_steps_key(rows, spec), 0)
    if _is_flag(keys[0]):
        flags = [array for name in keys if _has_value_per_step(array := arrays[name])]
        if key in keys and not flags:
            raise SourceError("episode_ends is no flag of each step", f"{where}: {key} in the spec")
        ends = ends_by_flags([flag[()].reshape(-1) for flag in flags], steps)
        return EpisodeEnds(keys[0] if ends or key else "", ends, steps)
    ends = _read_list(keys[0], arrays[keys[0]], max(rows.values(), default=0), where, must_rise=must_rise)
    return EpisodeEnds(keys[0], ends, steps)


def _is_flag(key: str) -> bool:
    return key.rpartition("/")[2].lower() in _END_FLAGS


def _has_value_per_step(array: Any) -> bool:
    if isinstance(array, SourceError | None) or not array.shape or array.dtype.kind not in "biuf":
        return False
    return bool(array.size == array.shape[0] <= _MOST_STEPS)


def _read_list(key: str, array: Any, most: int, where: str, *, must_rise: bool) -> tuple[int, ...]:
    """The ends by a list of them, or of lengths. Raises SourceError for anything else than whole numbers."""
    import numpy as np

    if isinstance(array, SourceError):
        raise array
    if array is None or not array.size:
        raise SourceError("episode_ends lists no episode", f"{where}: {key} is empty or no array of numbers")
    is_list = array.dtype.kind in "iuf" and _has_value_per_step(array)
    if is_list and array.shape[0] > most:
        counts = f"{count_of(array.shape[0], 'end')}, {count_of(most, 'step')}"
        raise SourceError("more episodes than steps", f"{where}: {counts}")
    stored = array[()].reshape(-1) if is_list else np.array([np.nan])
    with np.errstate(invalid="ignore"):
        values = stored.astype(np.int64)
    if not np.array_equal(values, stored):
        detail = f"{where}: {key} is {array.dtype} {array.shape}; needed is a list of whole numbers that rise"
        raise SourceError("episode_ends is no list of whole numbers", detail)
    is_lengths = key.rpartition("/")[2].lower() == _LENGTHS_NAME
    ends = tuple((np.cumsum(values, dtype=np.int64) if is_lengths else values).tolist())
    if must_rise and (list(ends) != sorted(set(ends)) or ends[0] <= 0):
        detail = f"{where}: {key} is {values[:10].tolist()}; needed is for each episode the step after its last one"
        raise SourceError("episode_ends does not rise", detail)
    return ends


def ends_by_flags(flags: Sequence[NDArray[Any]], steps: int) -> tuple[int, ...]:
    """The steps at which episodes end by (T,) flags, the longest decide; () where they cut nothing.

    A flag that is true at consecutive steps says that a goal is reached, and not that an episode ends. One of the
    observations may have one value more than there are steps.
    """
    import numpy as np

    longest = max(map(len, flags), default=0)
    steps = steps if longest == steps + 1 else longest
    is_end = np.zeros(steps, bool)
    for flag in (values[:steps] != 0 for values in flags if len(values) >= steps):
        if not (flag[1:] & flag[:-1]).any():
            is_end |= flag
    ends = np.flatnonzero(is_end[:-1]) + 1
    return (*ends.tolist(), steps) if len(ends) else ()
