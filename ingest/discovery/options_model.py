"""The options of one dataset in an options file, checked key by key."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class DatasetOptions(BaseModel):
    """What the user says of one dataset.

    Attributes:
        format: Name of the format to read it as, or "" for what was recognised.
        dataset: Name to store, or "".
        rate: Steps per second, or None for the dataset's own.
        spec: YAML file with what the dataset does not say itself, or "".
        cameras: Pattern of the names of video files, or "".
        skip: Whether the dataset is left out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: str = ""
    dataset: str = ""
    rate: Annotated[float, Field(gt=0, lt=float("inf"))] | None = None
    spec: str = ""
    cameras: str = ""
    skip: bool = False
