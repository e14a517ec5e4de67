"""Reads, checks and writes the options file of an ingestion: options by path of the dataset."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ares.errors import RequestError
from ares.input import parse_option_values, read_options_document, write_options_text
from ares.io import absolute_path, is_url
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from ares.jobs import IngestPlan, IngestRequest


class UserDatasetOptions(BaseModel):
    """What the user says of one dataset.

    Attributes:
        format: Name of the format to read it as, or "" for what was recognised.
        dataset: Name to store, or "".
        rate: Steps per second, or None for the dataset's rate.
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


_HEADER = """\
# Options of `ares ingest` by dataset. Pass this file with --options.
# format: the format to read it as. dataset: the name to store. rate: steps per second.
# spec: a YAML file, see --show-spec. cameras: the pattern of video file names. skip: true leaves the dataset out.
# A rate behind "#" was found or assumed; without "#" it decides over the data.
"""


def read_options_file(path: str) -> dict[str, UserDatasetOptions]:
    """The options of each dataset by its absolute path or URL; relative paths are relative to the file's folder.

    Raises RequestError for a file that cannot be read, has a wrong form or an unknown key.
    """
    datasets = read_options_document(path, ["datasets"]).get("datasets")
    if not isinstance(datasets, dict):
        raise RequestError("the options file has a wrong form", f"{path}: expected one key, `datasets`")
    folder = absolute_path(path).parent
    return {
        _resolve_spec_path(folder, str(dataset_path)): _parse_dataset_options(
            path, folder, str(dataset_path), values
        )
        for dataset_path, values in datasets.items()
    }


def write_options_file(path: str, plan: IngestPlan, user_options: Mapping[str, UserDatasetOptions]) -> None:
    """Write a file with the options that a plan amounts to, to be edited.

    Args:
        path: The file.
        plan: The plan.
        user_options: What the user said of datasets, by their paths.

    Raises:
        RequestError: The file exists, or cannot be written.
    """
    entries: dict[str, tuple[dict[str, Any], str]] = {}
    for dataset in plan.datasets:
        named = user_options.get(dataset.path)
        options = named.model_dump(exclude_defaults=True) if named else {}
        defaults = {"format": dataset.format, "dataset": dataset.dataset}
        is_unsaid = dataset.rate_hz is not None and "rate" not in options
        note = f"    # rate: {dataset.rate_hz:g}\n" if is_unsaid else ""
        entries[dataset.path] = ({key: value for key, value in defaults.items() if value} | options, note)
    for skipped, named in user_options.items():
        if named.skip:
            entries[skipped] = (named.model_dump(exclude_defaults=True), "")
    text = _HEADER + "datasets:\n" + "".join(map(_entry_text, entries, entries.values()))
    write_options_text(path, text)


def _entry_text(path: str, entry: tuple[dict[str, Any], str]) -> str:
    import yaml

    options, note = entry
    block = yaml.safe_dump({path: options}, sort_keys=False, allow_unicode=True, width=10**6)
    return textwrap.indent(block, "  ") + note


def collect_options_by_path(plan: IngestPlan, request: IngestRequest) -> dict[str, UserDatasetOptions]:
    """What the user said of the datasets of a plan, by their paths: in the options file, else beside it.

    Raises RequestError where the options file cannot be read.
    """
    common = UserDatasetOptions(
        dataset=request.dataset,
        rate=request.rate_hz,
        spec=_resolve_spec_path(Path.cwd(), request.spec) if request.spec else "",
        cameras=request.cameras,
    )
    named = read_options_file(request.options) if request.options else {}
    return {dataset.path: common for dataset in plan.datasets} | named


def check_options_file_paths(options: Mapping[str, UserDatasetOptions], existing: Sequence[str]) -> None:
    """Raise RequestError for a path of the options file at which no dataset was found."""
    for path in options:
        if path not in existing:
            hint = did_you_mean(path, existing)
            raise RequestError("no dataset at a path of the options file", f"{path}: {hint}see --dry-run")


def _parse_dataset_options(file: str, folder: Path, dataset_path: str, values: object) -> UserDatasetOptions:
    options = parse_option_values(UserDatasetOptions, values, f"{file}: {dataset_path}")
    if not options.spec:
        return options
    return options.model_copy(update={"spec": _resolve_spec_path(folder, options.spec)})


def _resolve_spec_path(folder: Path, path: str) -> str:
    return path.rstrip("/") if is_url(path) else str(absolute_path(str(folder / Path(path).expanduser())))
