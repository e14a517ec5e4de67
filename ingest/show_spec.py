"""The mapping that a reader uses, as the YAML of a spec: to be saved, edited and passed with --spec."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.episode import Camera, Record, SourceArray
from ares.errors import SourceError
from ares_ingest.base import Ingester, Source, SourceOptions, SpecIngester
from ares_ingest.episode_ends import find_ends_keys
from ares_ingest.labels import open_with_labels
from ares_ingest.mapping import TRIED_RECORDS, load_first_readable_record, make_full_slices, signal_arrays

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec


# An array of more numbers would make a line that nobody reads.
_LONGEST_LIST = 24


def show_spec(ingester: Ingester, path: str, options: SourceOptions) -> str:
    """The specs of the datasets at or under a path, as YAML; each dataset is told by its first record.

    Raises SourceError where no record can be read.
    """
    from ares_ingest.spec import read_spec

    if isinstance(ingester, SpecIngester):
        return ingester.show_spec(path, options)
    spec = read_spec(Path(options.spec)) if options.spec else None
    sources = open_with_labels(partial(ingester.open, path, replace(options, reads_unknown=True)))
    return "---\n".join(_source_yaml(source, spec) for source in sources)


def _source_yaml(source: Source, spec: DatasetSpec | None) -> str:
    items = [item for item, _ in zip(source.items, range(TRIED_RECORDS), strict=False)]
    record, errors = load_first_readable_record(source.format, items, source.folder)
    if record is None:
        reason = errors[0] if errors else "no record"
        raise SourceError("no record can be read to tell its mapping", f"{source.dataset}: {reason}")
    steps = count_of(record.episode.num_steps, "step")
    gives = f"# it gives {count_of(source.total, 'episode')}, the first of them with {steps}"
    return f"{gives}\n{make_record_spec_yaml(record, spec)}"


def make_record_spec_yaml(record: Record, spec: DatasetSpec | None = None) -> str:
    """The spec by which a record is read as it was read, with what it holds as comments.

    Args:
        record: As the reader of its format made it.
        spec: What the user knows; its fields stay as they are.
    """
    episode = record.episode
    guess = make_spec_of_reader(record)
    completed = guess if spec is None else _complete_spec(spec, guess)
    lines = [f"# {episode.format} dataset {_one_line(episode.dataset)}, told by {_one_line(episode.source)}"]
    if completed.rate_hz is None:
        origin = "assumed" if episode.rate_source == "assumed" else "the source's own"
        lines.append(f"# rate_hz: {episode.rate_hz:g}  # {origin}; set another here, or with --rate")
    lines += format_spec_lines(completed.model_dump(exclude_defaults=True, mode="json"))
    lines += _text_comments(record, completed)
    lines += [
        "# it holds:",
        *(f"#   {describe_array(array)}: {_describe_use(array)}" for array in _all_arrays(record)),
    ]
    lines += [
        f"#   {_one_line(camera.name)} ({camera.height} x {camera.width} {camera.codec}): {_describe_frames(camera)}"
        for camera in episode.cameras
    ]
    lines += _contract_comments(record, completed)
    fields = ", ".join(_one_line(name) for name in list(episode.metadata)[:_LONGEST_LIST])
    lines += [f"# fields for language and success: {fields}"] if fields else []
    lines += [f"# {_one_line(warning)}" for warning in record.warnings]
    return "\n".join(lines) + "\n"


def make_spec_of_reader(record: Record) -> DatasetSpec:
    """The spec by which a record is read as its reader read it."""
    from ares_ingest.spec import DatasetSpec

    keys = {
        use: next((array.key for array in record.arrays if array.use == use), "") for use in ("time", "ends")
    }
    if len(find_ends_keys(array.key for array in record.arrays if array.use != "ends")) > 1:
        keys["ends"] = ""  # several flags say it together, and one that a spec names would count alone
    reward = next((array.key for array in signal_arrays(record) if array.use == "reward"), "")
    return DatasetSpec(
        cameras={camera.name: _camera_spec(camera) for camera in record.episode.cameras},
        # Names that each record brings with it do not fit the next one: the reader tells them.
        state=() if any(array.names_vary for array in record.arrays) else make_full_slices(record, "state"),
        action=make_full_slices(record, "action"),
        reward=reward,
        timestamps=keys["time"],
        episode_ends=keys["ends"],
        reference="guessed by ARES from names and shapes; state here where the rest comes from",
    )


def _camera_spec(camera: Camera) -> Any:
    """The role of a camera, and its colours where they are not RGB. Its name tells it in every record."""
    from ares_ingest.spec import CameraSpec

    media = camera.media
    document = {"role": camera.role, "channels": media.channels, "turn": media.turn or None}
    return camera.role if media.pixel_order == "rgb" else CameraSpec.model_validate(document)


def _complete_spec(spec: DatasetSpec, guess: DatasetSpec) -> DatasetSpec:
    """The spec, with the guess for the roles that it leaves open."""
    update: dict[str, Any] = {
        name: getattr(guess, name)
        for name in ("state", "action", "reward", "timestamps", "episode_ends")
        if not getattr(spec, name)
    }
    named = {spec.camera(name).key or name for name in spec.cameras}
    cameras = {
        name: camera
        for name, camera in guess.cameras.items()
        if not named & {name, guess.camera(name).key} and name not in spec.left_out
    }
    return spec.model_copy(update={**update, "cameras": {**spec.cameras, **cameras}})


def _text_comments(record: Record, spec: DatasetSpec) -> Iterator[str]:
    """What was found without the spec, in the form in which a spec can state it."""
    episode = record.episode
    if not spec.language:
        instruction = json.dumps(episode.instruction[:200], ensure_ascii=False)
        yield (
            f"# language: []  # the reader finds {instruction} itself"
            if episode.instruction
            else '# language: [{text: "for all episodes"}, {path: "{text}/*"}, FIELD]  # the source has none'
        )
    if not spec.success and not spec.outcome_in_path:
        yield (
            f"# success: found by the reader in {_one_line(episode.success_source)}"
            if episode.success is not None
            else "# success: KEY, or outcome_in_path: true  # the source states no outcome"
        )


def _contract_comments(record: Record, spec: DatasetSpec) -> Iterator[str]:
    """What the signals of the record seem to mean, in the form in which a spec corrects it."""
    from ares.contract import collect_contract_evidence, infer_contract
    from ares.signals import episode_signals

    evidence = collect_contract_evidence(episode_signals(record.episode, record.trajectory))
    names = (record.episode.state_names, record.episode.action_names)
    contract = infer_contract(record.episode.dataset, *names, [evidence]) if evidence else None
    if contract is None or not contract.signals:
        return
    yield "# contract:  # what this record seems to mean, see docs/contract.md; state what you know"
    for signal in contract.signals:
        if signal.name not in spec.contract:
            values = ", ".join(f"{name}: {estimate}" for name, estimate in signal.estimates.items())
            yield f"#   {signal.name}: {{{values}}}"


def _all_arrays(record: Record) -> list[SourceArray]:
    others = [array for array in record.arrays if array.use in ("time", "ends", "kept", "unused")]
    return [*signal_arrays(record), *others]


def _describe_frames(camera: Camera) -> str:
    """Array, number and rate of the frames of a camera: "camera /front/image (200 frames, 30 Hz)"."""
    media = camera.media
    key = f" {_one_line(media.key)}" if media.key and media.key != camera.name else ""
    return f"camera{key} ({count_of(media.num_frames, 'frame')}, {media.rate_hz:.4g} Hz)"


def _describe_use(array: SourceArray) -> str:
    note = f" ({_one_line(array.note)})" if array.note else ""
    return {"extra": "kept as a separate signal", "unused": "not stored"}.get(array.use, array.use) + note


def describe_array(array: SourceArray) -> str:
    """An array in words: "states_i (T x 7 float32)"."""
    shape = " x ".join(["T", *map(str, array.shape[1:])] if array.shape else [])
    return f"{_one_line(array.key)} ({' '.join(filter(None, (shape, array.dtype))) or 'one value'})"


def describe_arrays(arrays: Iterable[SourceArray]) -> str:
    """Arrays in words, at most two dozen of them."""
    texts = [describe_array(array) for array in arrays]
    more = f" and {len(texts) - _LONGEST_LIST} more" if len(texts) > _LONGEST_LIST else ""
    return ", ".join(texts[:_LONGEST_LIST]) + more or "nothing"


def format_spec_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """YAML of a spec: one line for each value, and one for each slice of the state and action."""
    for name, value in document.items():
        if name in ("state", "action"):
            yield f"{name}:"
            yield from (f"  - {_flow_yaml(spec_slice)}" for spec_slice in value)
        elif name == "cameras":
            yield f"{name}:"
            yield from (f"  {_flow_yaml({camera: part})[1:-1]}" for camera, part in value.items())
        else:
            yield f"{name}: {_flow_yaml(value)}"


def _flow_yaml(value: Any) -> str:
    import yaml

    def dump(is_unicode: bool) -> str:
        text = yaml.safe_dump(
            value, default_flow_style=True, sort_keys=False, width=1_000_000, allow_unicode=is_unicode
        )
        return str(text).removesuffix("...\n").strip()

    text = dump(is_unicode=True)
    return text if text.isprintable() else dump(is_unicode=False)


def _one_line(text: str) -> str:
    """A text of the source without line breaks, so that it stays a comment."""
    return "".join(character if character.isprintable() else " " for character in text)[:300]
