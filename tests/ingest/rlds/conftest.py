"""What tensorflow_datasets reads of the records that ARES read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from ares.episode import Record
from ares.formats import RecordLocation, read_record
from ares_ingest.base import Source, SourceOptions
from ares_ingest.rlds import rlds


def open_source(path: Path, **options: Any) -> Source:
    """The one dataset of a folder."""
    (source,) = rlds.open(str(path), SourceOptions(**options))
    return source


def load_first_record(path: Path, **options: Any) -> Record:
    """The first record of the one dataset of a folder."""
    return next(open_source(path, **options).items).load()


def import_tfds() -> Any:
    """tensorflow_datasets; the test is skipped without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_datasets")


def tfds_features(folder: Path) -> Any:
    """The features of a dataset as tensorflow_datasets reads them."""
    return import_tfds().features.FeaturesDict.from_config(str(folder))


def tfds_steps(folder: Path, record: Record) -> list[Any]:
    """The steps of a record as tensorflow_datasets reads them."""
    media = record.episode.cameras[0].media
    raw, _ = read_record(media.uri, RecordLocation(media.byte_offset, media.byte_size))
    return list(tfds_features(folder).deserialize_example_np(raw)["steps"])
