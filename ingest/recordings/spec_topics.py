"""The topics that a spec names, and their messages as named numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares_ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec


# Fields that say when and how a message was made, and hold no values of it.
_STAMP_FIELDS = frozenset({"header", "timestamp", "stamp"})

_OTHER_FIELDS = re.compile(r"header|layout|seq|(.*_)?(time)?stamp(_.*)?|(sec|nsec|nanosec|nanos)")

_JOINT_FIELDS = ("position", "velocity", "effort")

_DEEPEST_FIELD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfSpec:
    """The topics that a spec names, beside those that the reader uses by itself.

    Attributes:
        numbers: Topics that are read as signals, whatever their type.
        texts: Topics whose texts become fields of the metadata.
        steps: Topic whose messages are the steps, or "".
    """

    numbers: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    steps: str = ""


NO_TOPICS = TopicsOfSpec()


def find_topics_of_spec(spec: DatasetSpec | None) -> TopicsOfSpec:
    """The topics that the keys of a spec name; "/joint_states.velocity" names the topic /joint_states."""
    if spec is None:
        return NO_TOPICS
    keys = [part.key for part in (*spec.state, *spec.action)] + [spec.reward, spec.success]
    return TopicsOfSpec(
        numbers=frozenset(_topic_of(key) for key in keys if key),
        texts=frozenset(part for part in spec.language if isinstance(part, str)),
        steps=spec.timestamps,
    )


def _topic_of(key: str) -> str:
    """The topic of a key. A topic may have dots itself: only the name of a field of joints is cut off."""
    topic, _, field = key.rpartition(".")
    return topic if field in _JOINT_FIELDS else key


def make_joint_message(message: Any) -> Any:
    """A message of any type as one of named positions, as joints have; its stamp is kept.

    Raises SourceError when it holds no number, or more than a signal may have.
    """
    values: dict[str, float] = {}
    for name, value in _named_numbers(message, "", 0):
        values[name] = value
        if len(values) > MAX_SIGNAL_WIDTH:
            raise SourceError("holds more numbers than a signal may have", f"at most {MAX_SIGNAL_WIDTH}")
    if not values:
        raise SourceError("holds no number")
    stamps = {name: getattr(message, name) for name in _STAMP_FIELDS if hasattr(message, name)}
    return SimpleNamespace(
        name=list(values), position=list(values.values()), velocity=[], effort=[], **stamps
    )


def _named_numbers(value: Any, name: str, depth: int) -> Iterator[tuple[str, float]]:
    """The numbers of a message or list, named by the way to them: "pose.position.x", "data_0"."""
    if isinstance(value, str | bytes) or depth > _DEEPEST_FIELD:
        return
    if isinstance(value, Real):
        yield name, float(value)
    elif fields := _field_names(value):
        for field in fields:
            if not _OTHER_FIELDS.fullmatch(field):
                yield from _named_numbers(
                    getattr(value, field), f"{name}.{field}" if name else field, depth + 1
                )
    elif hasattr(value, "__len__") and not isinstance(value, Mapping):
        for number, part in enumerate(value):
            yield from _named_numbers(part, f"{name}_{number}", depth + 1)


def find_only_text(message: Any) -> str:
    """The only text among the fields of a message; "" for none or several."""
    values = [getattr(message, name) for name in _field_names(message) if name not in _STAMP_FIELDS]
    texts = [value for value in values if isinstance(value, str) and value]
    return texts[0] if len(texts) == 1 else ""


def _field_names(message: Any) -> list[str]:
    """The fields of a message as any of the decoders makes it; empty for a list."""
    if descriptor := getattr(message, "DESCRIPTOR", None):
        return [field.name for field in descriptor.fields]
    if fields := getattr(message, "__dataclass_fields__", None):
        return [name for name in fields if name != "__msgtype__"]
    slots = getattr(type(message), "__slots__", None)
    return list(slots) if slots else list(getattr(message, "__dict__", ()))
