"""Options of an ingestion by dataset: one YAML file with the path of each, read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError, SourceError
from ares.input import read_yaml
from ares.io import absolute_path, describe_os_error, is_url
from ares.registry import did_you_mean
from ingest.base import IngestOptions

if TYPE_CHECKING:
    from ares.jobs import IngestPlan
    from ingest.discovery.options_model import DatasetOptions

_HEADER = """\
# Options of `ares ingest` by dataset. Pass this file with --options.
# format: the format to read it as. dataset: the name to store. rate: steps per second.
# spec: a YAML file, see --show-spec. cameras: the pattern of video file names. skip: true leaves the dataset out.
"""


def read_options_file(path: str) -> dict[str, DatasetOptions]:
    """The options of each dataset by its absolute path or URL; relative paths are relative to the file's folder.

    Raises RequestError for a file that cannot be read, has a wrong form or an unknown key.
    """
    try:
        document = read_yaml(path)
    except (OSError, SourceError) as error:
        raise RequestError("the options file cannot be read", f"{path}: {error}") from None
    datasets = document.get("datasets") if isinstance(document, dict) else None
    if not isinstance(datasets, dict) or len(document) != 1:
        raise RequestError("the options file has a wrong form", f"{path}: expected one key, `datasets`")
    folder = absolute_path(path).parent
    return {
        _absolute(folder, str(dataset_path)): _parse(path, folder, str(dataset_path), values)
        for dataset_path, values in datasets.items()
    }


def write_options_file(path: str, plan: IngestPlan) -> None:
    """Write a file with the options that a plan amounts to, to be edited. Raises RequestError where it exists."""
    import yaml

    datasets: dict[str, dict[str, Any]] = {}
    for dataset in plan.datasets:
        options: dict[str, Any] = {"format": dataset.format, "dataset": dataset.dataset}
        if dataset.rate_hz is not None:
            options["rate"] = dataset.rate_hz
        datasets[dataset.path] = {key: value for key, value in options.items() if value}
    text = _HEADER + yaml.safe_dump({"datasets": datasets}, sort_keys=False, allow_unicode=True)
    try:
        with Path(path).open("x") as file:
            file.write(text)
    except FileExistsError:
        raise RequestError("the options file exists already", f"{path}: choose another name") from None
    except OSError as error:
        raise RequestError(
            "the options file cannot be written", f"{path}: {describe_os_error(error)}"
        ) from None


def ingest_options(options: DatasetOptions) -> IngestOptions:
    """The options as ingesters take them."""
    return IngestOptions(
        dataset=options.dataset, rate_hz=options.rate, spec=options.spec, cameras=options.cameras
    )


def check_paths(options: Mapping[str, DatasetOptions], existing: Sequence[str]) -> None:
    """Raise RequestError for a path of the options file at which no dataset was found."""
    for path in options:
        if path not in existing:
            hint = did_you_mean(path, existing)
            raise RequestError("no dataset at a path of the options file", f"{path}: {hint}see --dry-run")


def _parse(file: str, folder: Path, dataset_path: str, values: object) -> DatasetOptions:
    from pydantic import ValidationError

    from ingest.discovery.options_model import DatasetOptions

    if not isinstance(values, dict):
        raise RequestError(
            "the options file has a wrong form", f"{file}: {dataset_path}: {values!r} is no mapping"
        )
    names = list(DatasetOptions.model_fields)
    for key in values:
        if key not in names:
            hint = did_you_mean(str(key), names)
            raise RequestError(
                f"the options file has an unknown key {key!r}",
                f"{file}: {dataset_path}: {hint}there are: {', '.join(names)}",
            )
    try:
        options = DatasetOptions.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RequestError(
            f"the options file has a wrong {key}",
            f"{file}: {dataset_path}: {first['msg']}: {first['input']!r}",
        ) from None
    if not options.spec:
        return options
    return options.model_copy(update={"spec": _absolute(folder, options.spec)})


def _absolute(folder: Path, path: str) -> str:
    return path.rstrip("/") if is_url(path) else str(absolute_path(str(folder / Path(path).expanduser())))
