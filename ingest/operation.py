"""Opens the datasets that a user names, by path or tfds name, to ingest, plan or show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError, RequestError
from ares.io import absolute_path, is_url, known_folders, list_folder
from ares.jobs import IngestPlan, IngestReport, IngestRequest, open_engine
from ares.registry import did_you_mean
from ares.settings import tfds_data_dir
from ingest.base import IngestOptions, Source, guarded_call
from ingest.discovery import Discovery, OpenedDataset, discover, read_options_file, refuse_options_for_several
from ingest.pipeline import IngestSources, MediaMode, find_datasets, ingest_datasets
from ingest.show_spec import show_spec

if TYPE_CHECKING:
    from ares.store import Stores


_SEVERAL = (
    "# There are {count} datasets. Save the spec of each as a file of its own, and name the files under `spec` in an\n"
    "# options file, which `ares ingest PATH --dry-run --write-options FILE` writes and --options reads.\n"
)


def open_sources(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> list[Source]:
    """Open every dataset at and below the paths, without a workspace. Raises as `ingest.discovery.discover`."""
    discovery = discover(paths, options, format)
    return [source for opened in discovery.datasets for source in opened.sources]


def show_specs(paths: Sequence[str], options: IngestOptions, format: str = "auto") -> str:
    """The specs of the datasets at and below the paths, as YAML to be saved, edited and passed with --spec.

    Of several datasets each spec begins with the path and format; one that cannot be read is told in its place.

    Raises:
        RequestError: A path holds no dataset of the format, or a spec is given for several datasets.
        SourceError: The only dataset has no readable record, or the spec does not fit it.
        PluginError: As SourceError, by a fault of an ingester.
    """
    # Opened without the spec of the user, which may not fit yet.
    discovery = discover(paths, replace(options, spec="", reads_unknown=True), format)
    refuse_options_for_several(options, discovery.datasets)
    if len(discovery.datasets) == 1:
        return _show_dataset_spec(discovery.datasets[0], options)
    return _SEVERAL.format(count=len(discovery.datasets)) + "---\n".join(
        _specs_of_datasets(discovery, options)
    )


def _specs_of_datasets(discovery: Discovery, options: IngestOptions) -> list[str]:
    specs = []
    for opened in discovery.datasets:
        try:
            text = _show_dataset_spec(opened, options)
        except AresError as error:
            text = f"# no spec: {error}\n"
        specs.append(f"# {opened.path} ({opened.format})\n{text}")
    return specs


def _show_dataset_spec(opened: OpenedDataset, options: IngestOptions) -> str:
    if opened.error is not None:
        raise opened.error
    spec_options = replace(opened.options, spec=options.spec)
    with known_folders(opened.listings):
        show = partial(show_spec, opened.ingester, opened.opened_at, spec_options)
        return guarded_call(opened.format, show, opened.path, options.follow_links)


_PREFIX = "tfds:"
_METADATA = "features.json"
_NAME = re.compile(r"(?P<name>\w[\w.-]*)(/(?P<config>\w[\w.+-]*))?(:(?P<version>\d+\.\d+\.\d+))?")


def prepared_paths(sources: Sequence[str], data_dir: str = "") -> list[str]:
    """The sources, with the folder of a prepared dataset for "tfds:NAME", "tfds:NAME/CONFIG" or "tfds:NAME:VERSION".

    Args:
        sources: Paths, URLs and names of prepared datasets.
        data_dir: Folder of the prepared datasets; "" for that of tensorflow-datasets, which TFDS_DATA_DIR names.

    Raises RequestError for a name that has a wrong form or is not there, and for a `data_dir` without any name.
    """
    names = [source for source in sources if source.startswith(_PREFIX)]
    if data_dir and not names:
        raise RequestError("--data-dir is for names such as tfds:bridge_dataset", f"got {', '.join(sources)}")
    return [_prepared_path(source, data_dir) if source in names else source for source in sources]


def _prepared_path(source: str, data_dir: str) -> str:
    match = _NAME.fullmatch(source.removeprefix(_PREFIX))
    if not match:
        raise RequestError(
            f"{source!r} is no name of a prepared dataset", "give tfds:NAME[/CONFIG][:VERSION]"
        )
    folder = absolute_path(data_dir or tfds_data_dir())
    if is_url(str(folder)) or not folder.is_dir():
        raise RequestError(
            "the folder of the prepared datasets is missing", f"{folder}: give --data-dir FOLDER"
        )
    for part in filter(None, (match["name"], match["config"])):
        folder = _child_folder(folder, part, source)
    if match["version"]:
        return str(_child_folder(folder, match["version"], source))
    versions = [name for name in list_folder(folder).folders if _is_dataset(folder / name)]
    if not versions:
        configs = ", ".join(list_folder(folder).folders) or "no folder"
        raise RequestError(
            f"{source!r} has no version here", f"{folder} holds {configs}; give tfds:NAME/CONFIG"
        )
    return str(folder / max(versions, key=_version_key))


def _child_folder(folder: Path, name: str, source: str) -> Path:
    """A folder in a folder. Raises RequestError, with those that there are, where it is missing."""
    names = list_folder(folder).folders
    if name in names:
        return folder / name
    listed = ", ".join(names[:24]) or "nothing"
    raise RequestError(
        f"{source!r} is not prepared here",
        f"{folder} has no {name!r}; {did_you_mean(name, names)}it holds {listed}",
    )


def _is_dataset(folder: Path) -> bool:
    return list_folder(folder).has_file(_METADATA)


def _version_key(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in re.findall(r"\d+", name)), name


def ingest(
    open_stores: Callable[[], Stores],
    existing_stores: Callable[[], Stores | None],
    request: IngestRequest,
    *,
    media: MediaMode,
    limit: int | None,
    strict: bool,
    engine: str,
    quiet: bool,
) -> IngestReport:
    """Ingest the datasets at and below some paths; see `Workspace.ingest` for the arguments and errors."""
    # Found before the workspace is created: a wrong path must not leave an empty workspace behind.
    discovery = find_requested(existing_stores, request)
    with open_engine(engine) as executor:
        return ingest_datasets(
            open_stores(), discovery, limit=limit, strict=strict, media=media, quiet=quiet, engine=executor
        ).to_report()


def plan_ingest(existing_stores: Callable[[], Stores | None], request: IngestRequest) -> IngestPlan:
    """What `ingest` would read; see `Workspace.plan_ingest`."""
    return find_requested(existing_stores, request, sample=True).plan


def find_requested(
    existing_stores: Callable[[], Stores | None], request: IngestRequest, *, sample: bool = False
) -> IngestSources:
    """Find the datasets that are requested; see `ingest.pipeline.find_datasets` for `sample` and the errors."""
    paths = prepared_paths(request.sources, request.data_dir)
    return find_datasets(
        existing_stores(),
        paths,
        _user_options(request),
        format=request.format,
        by_path=read_options_file(request.options) if request.options else None,
        sample=sample,
    )


def _user_options(request: IngestRequest) -> IngestOptions:
    return IngestOptions(
        dataset=request.dataset,
        rate_hz=request.rate_hz,
        spec=request.spec,
        cameras=request.cameras,
        follow_links=request.follow_links,
    )
