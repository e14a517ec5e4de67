"""Instructions and outcome of an episode as a spec says where they are: fields, constant texts, parts of paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ares.episode import Episode, Json, Signal
from ingest.names import distinct_texts, parse_outcome
from ingest.outcome_in_path import episode_path, outcome_in_path

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec, TextSpec


def map_instructions(episode: Episode, spec: DatasetSpec) -> tuple[str, ...]:
    """The instructions of the spec, then those that the reader found."""
    return distinct_texts(
        [text for part in spec.language for text in _texts(part, episode)] + [*episode.instructions]
    )


def _texts(part: str | TextSpec, episode: Episode) -> Iterator[str]:
    from ingest.dataset_spec import TextSpec

    if isinstance(part, TextSpec):
        yield text_of_spec(part, episode.source)
        return
    value = find_field(episode.metadata, part)
    yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))


def text_of_spec(part: TextSpec, path: str) -> str:
    """The text that a spec states, or that its pattern finds in the path of an episode; "" for no match."""
    return part.text or _text_in_path(part.path, path)


def _text_in_path(pattern: str, path: str) -> str:
    """The text at `{text}` of a pattern of the end of a path, with spaces for underscores; "" without a match."""
    parts = re.split(r"(\*|\{text\})", pattern)
    expression = "".join(
        {"*": "[^/]*", "{text}": "(?P<text>[^/]+?)"}.get(part, re.escape(part)) for part in parts
    )
    match = re.search(rf"(?:^|/){expression}$", path)
    return match["text"].replace("_", " ").strip() if match else ""


def find_field(document: Mapping[str, Json], key: str) -> Json:
    """A field of a JSON object: by its own name, else by the names between dots; None where there is none."""
    if key in document:
        return document[key]
    first, _, rest = key.partition(".")
    value = document.get(first)
    return find_field(value, rest) if rest and isinstance(value, Mapping) else None


def map_outcome(
    episode: Episode, signals: Mapping[str, Signal], spec: DatasetSpec
) -> tuple[bool | None, str, list[str]]:
    """Whether the episode succeeded by the spec, else by the reader; the field that says so; and warnings."""
    warnings: list[str] = []
    if spec.success and (spec.success in signals or find_field(episode.metadata, spec.success) is not None):
        success = (
            _outcome_of_steps(signals[spec.success])
            if spec.success in signals
            else parse_outcome(find_field(episode.metadata, spec.success))
        )
        if success is None:
            warnings.append(f"outcome {spec.success} is neither success nor failure")
        return success, spec.success if success is not None else "", warnings
    if spec.success and spec.success != episode.success_source:
        warnings.append(f"outcome {spec.success}, named by the spec, is missing")
    if episode.success is None and spec.outcome_in_path:
        suggested = outcome_in_path(episode_path(episode))
        return suggested[0] if suggested else None, "path" if suggested else "", warnings
    return episode.success, episode.success_source, warnings


def _outcome_of_steps(signal: Signal) -> bool | None:
    """The outcome of zeros and ones for each step: one that ends with success succeeded; None for anything else."""
    values = signal.values
    if values.shape[1] != 1 or not ((values == 0) | (values == 1)).all():
        return None
    return bool(values[-1, 0]) if len(set((values[1:, 0] - values[:-1, 0]).tolist()) - {0.0}) < 2 else None
