"""Damages one array of an HDF5 file in a way that a person, a program or an attacker might."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np

Rng = np.random.Generator


def labels_of(file: Any) -> list[str]:
    """Every dataset of a file."""
    labels: list[str] = []
    file.visititems(lambda name, child: labels.append(name) if isinstance(child, h5py.Dataset) else None)
    return labels


def _replace(file: Any, label: str, values: Any, **options: Any) -> None:
    del file[label]
    file.create_dataset(label, data=values, **options)


def remove(file: Any, label: str, rng: Rng) -> None:
    del file[label]


def shorten(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values):
        _replace(file, label, values[: rng.integers(0, len(values) + 1)], dtype=file[label].dtype)


def lengthen(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and len(values) and values.dtype.kind != "O":
        _replace(file, label, np.concatenate([values] * 2)[: len(values) + rng.integers(1, 3)])


def retype(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and values.dtype.kind in "biuf":
        dtype = rng.choice(["float16", ">f8", ">i2", "int8", "uint64", "bool", "complex64", "longdouble"])
        with np.errstate(all="ignore"):
            _replace(file, label, values.astype(dtype))


def turn_into_text(file: Any, label: str, rng: Rng) -> None:
    texts = [b"caf\xe9", "größer".encode(), b""]
    _replace(file, label, np.array(texts, dtype=h5py.string_dtype() if rng.random() < 0.5 else "S9"))


def turn_into_records(file: Any, label: str, rng: Rng) -> None:
    _replace(file, label, np.zeros(file[label].shape[:1] or (1,), [("x", "f4"), ("name", "S4")]))


def turn_into_references(file: Any, label: str, rng: Rng) -> None:
    _replace(file, label, np.array([file.ref] * 5, dtype=h5py.ref_dtype))


def turn_into_ragged_rows(file: Any, label: str, rng: Rng) -> None:
    rows = file[label].shape[0] if file[label].ndim else 1
    del file[label]
    ragged = file.create_dataset(label, (rows,), h5py.vlen_dtype(np.float32))
    for number in range(rows):
        ragged[number] = np.zeros(rng.integers(0, 5), np.float32)


def turn_into_scalar(file: Any, label: str, rng: Rng) -> None:
    _replace(file, label, np.float32(3))


def turn_into_nothing(file: Any, label: str, rng: Rng) -> None:
    del file[label]
    file[label] = h5py.Empty("f4")


def turn_into_group(file: Any, label: str, rng: Rng) -> None:
    del file[label]
    file.create_group(label)


def add_an_axis(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and values.dtype.kind in "biuf":
        _replace(file, label, values[:, None])


def commit_its_type(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and values.dtype.kind in "biuf":
        name = f"type_{rng.integers(2**32)}"
        file[name] = values.dtype
        _replace(file, label, values, dtype=file[name])


def compress(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and values.size and values.dtype.kind in "biuf":
        _replace(file, label, values, chunks=True, compression="lzf", shuffle=True, fletcher32=True)


def link_out(file: Any, label: str, rng: Rng) -> None:
    del file[label]
    file[label] = h5py.ExternalLink("/etc/passwd", "/")


def link_nowhere(file: Any, label: str, rng: Rng) -> None:
    del file[label]
    file[label] = h5py.SoftLink("/nowhere" if rng.random() < 0.5 else f"/{label}")


def store_outside(file: Any, label: str, rng: Rng) -> None:
    shape = file[label].shape or (1,)
    del file[label]
    if rng.random() < 0.5:
        dtype = rng.choice(["S20", "u1", "f4"])
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        file.create_dataset(label, shape, dtype, external=[("/etc/passwd", 0, size)])
    else:
        layout = h5py.VirtualLayout(shape, np.float32)
        layout[...] = h5py.VirtualSource("/etc/passwd", "x", shape)
        file.create_virtual_dataset(label, layout)


def claim_more_than_there_is(file: Any, label: str, rng: Rng) -> None:
    shape = file[label].shape or (1,)
    dtype = file[label].dtype if file[label].dtype.kind in "biufS" else np.dtype("f4")
    del file[label]
    claimed = (int(rng.choice([shape[0], 2**40])), *shape[1:], *([2**20] if rng.random() < 0.3 else []))
    file.create_dataset(
        label, claimed, dtype, chunks=tuple(min(size, 8) for size in claimed) if all(claimed) else None
    )


def poison(file: Any, label: str, rng: Rng) -> None:
    values = file[label][()]
    if np.ndim(values) and values.size and values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values.reshape(-1)[rng.integers(values.size)] = rng.choice([np.nan, np.inf, 1e300])
        _replace(file, label, values)


DAMAGES: tuple[Callable[[Any, str, Rng], None], ...] = (
    remove, shorten, lengthen, retype, turn_into_text, turn_into_records, turn_into_references,
    turn_into_ragged_rows, turn_into_scalar, turn_into_nothing, turn_into_group, add_an_axis, commit_its_type,
    compress, link_out, link_nowhere, store_outside, claim_more_than_there_is, poison,
)  # fmt: skip


def damage(path: Path, rng: Rng, times: int) -> list[str]:
    """Damage a file several times; what was done to which array."""
    done = []
    for _ in range(times):
        with h5py.File(path, "a") as file:
            labels = labels_of(file)
            if not labels:
                break
            label, change = labels[rng.integers(len(labels))], DAMAGES[rng.integers(len(DAMAGES))]
            array = file[label]
            is_readable = array.shape is not None and not array.external and not array.is_virtual
            if is_readable and array.nbytes < 2**24:
                done.append(f"{change.__name__} {label}")
                change(file, label, rng)
    return done
