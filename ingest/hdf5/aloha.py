"""Loads HDF5 files of ALOHA and ACT: one episode per file, images raw or as padded JPEG rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ares.episode import Record
from ares.input import open_hdf5
from ares.media.readers import has_encoded_images, read_encoded_image
from ingest.hdf5.episode import ArrayRoles, EpisodeDetails, HDF5Entry, count_steps, make_record
from ingest.hdf5.reader import (
    HDF5EpisodeReader,
    find_datasets,
    read_attributes,
    read_small,
    read_texts,
    small_values,
)
from ingest.signals import resolve_rate

RATE_HZ = 50.0
# Two arms with seven joints each; Mobile ALOHA appends the two velocities of its base.
WIDTHS = (14, 16)
_ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
JOINTS = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in _ARM)
_BASE = ("base_linear", "base_angular")
_LANGUAGE_KEYS = ("language_instruction", "instruction", "language_raw", "task")


def has_known_width(action: Any) -> bool:
    """Whether an action is as wide as ALOHA's, so that the rate and the joint names are known."""
    return bool(action.ndim == 2 and action.shape[1] in WIDTHS)


def load_aloha(entry: HDF5Entry) -> Record:
    """Read the episode of a file. Raises SourceError when the file is damaged or has no action."""
    with open_hdf5(entry.path) as file:
        datasets, attributes = find_datasets(file), read_attributes(file)
        steps = count_steps(datasets, ["action"], entry.path)
        is_known = has_known_width(datasets["action"])
        rate_hz, rate_source = resolve_rate(entry.rate_hz, RATE_HZ if is_known else None, "format")
        reader = HDF5EpisodeReader(entry.path, entry.group, steps, rate_hz)
        reader.warnings += _compression_warnings(datasets, attributes)
        width = int(datasets["action"].shape[1]) if is_known else 0
        roles = ArrayRoles(
            action=("action",),
            state=("observations/qpos",),
            action_names=(*JOINTS, *_BASE)[:width],
            state_names=JOINTS,
            left_out=frozenset({"compress_len", *_LANGUAGE_KEYS}),
        )
        details = EpisodeDetails(
            rate_source=rate_source,
            robot="ALOHA" if is_known else "",
            instructions=_instructions(datasets, attributes),
            metadata=small_values(
                {name: value for name, value in attributes.items() if name not in _LANGUAGE_KEYS}
            ),
        )
        return make_record(entry, reader, datasets, roles, details)


def _instructions(datasets: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    """Instructions from attributes or datasets: ALOHA itself stores none, formats derived from it do."""
    instructions = [attributes[name] for name in _LANGUAGE_KEYS if isinstance(attributes.get(name), str)]
    return instructions + [
        text for name in _LANGUAGE_KEYS if name in datasets for text in read_texts(datasets[name])
    ]


def _compression_warnings(datasets: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    """Warnings where the images disagree with `compress` and `compress_len`."""
    cameras = {
        label: images
        for label, images in datasets.items()
        if label.startswith("observations/images/") and images.ndim and len(images)
    }
    encoded = {label: images for label, images in cameras.items() if has_encoded_images(images)}
    warnings = []
    if "compress" in attributes and bool(attributes["compress"]) != bool(encoded) and cameras:
        warnings.append("attribute compress does not match the images")
    lengths = datasets.get("compress_len")
    if lengths is not None and encoded and lengths.ndim == 2 and lengths.shape[1]:
        first_lengths = {length for length, *_ in read_small(lengths)}
        # compress_len lists cameras in the order of writing, which the file does not record.
        if any(len(read_encoded_image(images, 0)) not in first_lengths for images in encoded.values()):
            warnings.append("compress_len does not match the images")
    return warnings
