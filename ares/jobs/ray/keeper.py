"""Values that actors of ray keep for each other: references to them stay in the actors, the driver has only tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ares.jobs.kept_values import KeptValue

# The methods of an actor for other actors run beside its work: it answers while it works, and two actors that ask
# each other do not wait for ever.
KEEPER_GROUP = "kept_values"


class KeptEntry(NamedTuple):
    """A value: the list in the object store that holds it, and its position there."""

    reference: Any
    position: int


# What this process keeps, by number. Memory is that of the object store, which ray moves to disk when it is full.
_entries: dict[int, KeptEntry] = {}
_numbers = count()


class RayKeeper:
    """Keeps values in actors that have a name; see `ares.jobs.kept_values.ValueKeeper`."""

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        """Keep values in this actor."""
        import ray

        name, reference = _own_name(), ray.put(list(values))
        kept = [(name, next(_numbers)) for _ in values]
        _entries.update((number, KeptEntry(reference, index)) for index, (_, number) in enumerate(kept))
        return kept

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        """Values of this actor and of others."""
        by_token = _find_everywhere(_numbers_by_worker(kept))
        entries = [by_token.get(token) for token in kept]
        lists = _read_lists({entry.reference for entry in entries if entry})
        return [_value(entry, lists) for entry in entries]

    def forget(self, kept: Sequence[KeptValue]) -> None:
        """Free the memory of values, wherever they are."""
        for worker, numbers in _numbers_by_worker(kept).items():
            if worker == _own_name():
                forget_entries(numbers)
            elif (actor := _find_actor(worker)) is not None:
                _beside_work(actor.forget_kept).remote(numbers)


def find_entries(numbers: Sequence[int]) -> list[KeptEntry | None]:
    """The entries of this actor with some numbers; None for those that it has no more."""
    return [_entries.get(number) for number in numbers]


def forget_entries(numbers: Sequence[int]) -> None:
    """Drop entries of this actor; a list is freed with its last entry."""
    for number in numbers:
        _entries.pop(number, None)


def _own_name() -> str:
    import ray

    return str(ray.get_runtime_context().get_actor_name())


def _numbers_by_worker(kept: Sequence[KeptValue]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for worker, number in kept:
        numbers.setdefault(worker, []).append(number)
    return numbers


def _find_everywhere(numbers: Mapping[str, Sequence[int]]) -> dict[KeptValue, KeptEntry]:
    """The entries that are still there, by token; all actors are asked at once."""
    own_name = _own_name()
    replies = {
        worker: _beside_work(actor.find_kept).remote(numbers[worker])
        for worker in numbers
        if worker != own_name and (actor := _find_actor(worker)) is not None
    }
    answers = {worker: _read(reply) or [] for worker, reply in replies.items()}
    if own_name in numbers:
        answers[own_name] = find_entries(numbers[own_name])
    return {
        (worker, number): entry
        for worker, entries in answers.items()
        for number, entry in zip(numbers[worker], entries, strict=False)
        if entry is not None
    }


def _find_actor(name: str) -> Any:
    import ray

    try:
        return ray.get_actor(name)
    except ValueError:  # it has ended
        return None


def _beside_work(method: Any) -> Any:
    return method.options(concurrency_group=KEEPER_GROUP)


def _read_lists(references: Iterable[Any]) -> dict[Any, Any]:
    """Lists by reference, those that are lost with a machine left out."""
    import ray

    references = list(references)
    try:
        return dict(zip(references, ray.get(references), strict=True))
    except ray.exceptions.RayError:
        return {reference: _read(reference) for reference in references}


def _read(reference: Any) -> Any:
    """What a reference stands for; None when it is lost."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayError:
        return None


def _value(entry: KeptEntry | None, lists: Mapping[Any, Any]) -> Any:
    values = lists.get(entry.reference) if entry else None
    return None if values is None or entry is None else values[entry.position]
