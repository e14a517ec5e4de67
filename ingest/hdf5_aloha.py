"""Files of ALOHA and ACT: one episode each, pictures raw or as padded JPEG rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ares.episode import Record
from ares.media.hdf5 import encoded_row, is_encoded, opened, reading
from ingest.hdf5_record import About, Entry, Layout, count_steps, make_record, rate
from ingest.hdf5_values import Reader, arrays, attributes, notes, texts

RATE_HZ = 50.0
# Two arms of seven; Mobile ALOHA writes the two speeds of its base behind them.
WIDTHS = (14, 16)
_ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
JOINTS = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in _ARM)
_BASE = ("base_linear", "base_angular")
_LANGUAGE = ("language_instruction", "instruction", "language_raw", "task")


def is_known(action: Any) -> bool:
    """Whether an action has the width of ALOHA's, so that its rate and its joints are known."""
    return bool(action.ndim == 2 and action.shape[1] in WIDTHS)


def load_aloha(entry: Entry) -> Record:
    """Read the episode of a file. Raises SourceError when it is broken or has no action."""
    with opened(entry.path) as file:
        named, said = arrays(file), attributes(file)
        steps = count_steps(named, ["action"], entry.path)
        known = is_known(named["action"])
        rate_hz, rate_source = rate(entry.rate_hz, RATE_HZ if known else None)
        reader = Reader(entry.path, entry.group, steps, rate_hz)
        reader.warnings += _compression(named, said)
        wide = int(named["action"].shape[1]) if known else 0
        layout = Layout(
            action=("action",),
            state=("observations/qpos",),
            action_names=(*JOINTS, *_BASE)[:wide],
            state_names=JOINTS,
            left_out=frozenset({"compress_len", *_LANGUAGE}),
        )
        about = About(
            rate_source=rate_source,
            robot="ALOHA" if known else "",
            instructions=_instructions(named, said),
            metadata=notes({name: value for name, value in said.items() if name not in _LANGUAGE}),
        )
        return make_record(entry, reader, named, layout, about)


def _instructions(named: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """ALOHA has no language of its own; descendants keep it as an attribute or a dataset of one of these names."""
    found = [said[name] for name in _LANGUAGE if isinstance(said.get(name), str)]
    return found + [text for name in _LANGUAGE if name in named for text in texts(named[name])]


def _compression(named: Mapping[str, Any], said: Mapping[str, Any]) -> list[str]:
    """Where the pictures are not what `compress` and `compress_len` say of them."""
    cameras = {
        label: one for label, one in named.items() if label.startswith("observations/images/") and len(one)
    }
    rows = {label: one for label, one in cameras.items() if is_encoded(one)}
    odd = []
    if "compress" in said and bool(said["compress"]) != bool(rows) and cameras:
        odd.append("attribute compress does not fit the pictures")
    lengths = named.get("compress_len")
    if lengths is not None and rows and lengths.ndim == 2 and lengths.shape[1]:
        with reading(f"{lengths.file.filename} compress_len"):
            first = {int(length) for length in lengths[:, 0]}
        # The rows of compress_len are in the order in which the cameras were written, which the file does not keep.
        if any(len(encoded_row(one, 0)) not in first for one in rows.values()):
            odd.append("compress_len does not fit the pictures")
    return odd
