"""The spec of a dataset that ARES exported, and whether a spec fits the features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import SourceArray
from ares.errors import SourceError
from ares.formats import (
    DATASET_METADATA_FILE,
)
from ares.input import read_json
from ares.registry import did_you_mean
from ares_ingest.rlds.feature_map import RldsFeatureMap
from ares_ingest.rlds.features import Feature, Misfit
from ares_ingest.show_spec import describe_arrays

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec


_ABSENT = "it does not exist"


def require_spec_fits(
    spec: DatasetSpec, features: Sequence[Feature], feature_map: RldsFeatureMap, where: str
) -> None:
    """Raise SourceError, with what the dataset holds, for the first thing of a spec that it does not have.

    Args:
        spec: The spec of the user.
        features: Leaves of the feature tree.
        feature_map: What the spec made of them.
        where: The dataset, for the message.
    """
    misfit = next(iter([*feature_map.misfits, *_other_misfits(spec, features, feature_map)]), None)
    if misfit is None:
        return
    contents = describe_arrays(
        SourceArray(
            key=f.key,
            use="unused",
            shape=_shape_for_listing(f),
            dtype=f.dtype if f.kind == "number" else f.kind,
        )
        for f in features
    )
    hint = did_you_mean(misfit.key, [feature.key for feature in features])
    raise SourceError(
        "spec does not fit the dataset",
        f"{where}: {misfit.field} names {misfit.key!r}: {misfit.reason}; {hint}it holds {contents}",
    )


def _shape_for_listing(feature: Feature) -> tuple[int, ...]:
    rows = (0,) if feature.per_step else ()
    return (*rows, *(size or 0 for size in feature.shape)) if feature.kind == "number" else rows


def _other_misfits(
    spec: DatasetSpec, features: Sequence[Feature], feature_map: RldsFeatureMap
) -> Iterator[Misfit]:
    keys = {feature.key for feature in features}
    cameras = {camera.name for camera in feature_map.cameras}
    images = {feature.key for feature in features if feature.kind == "image"}
    names = {feature.name for feature in features if feature.kind == "image"}
    for field, key, feature in (
        ("reward", spec.reward, feature_map.reward),
        ("timestamps", spec.timestamps, feature_map.time),
    ):
        if key and feature is None:
            yield Misfit(field, key, "it is not one number per step" if key in keys else _ABSENT)
    if spec.episode_ends:
        yield Misfit("episode_ends", spec.episode_ends, "each record of RLDS is an episode")
    if spec.episode_axis is not None:
        yield Misfit("episode_axis", str(spec.episode_axis), "each record of RLDS is an episode")
    for key in spec.left_out:
        if key not in keys | names:
            yield Misfit("left_out", key, _ABSENT)
    for name in spec.cameras:
        key = spec.camera(name).key or name
        if key not in cameras | images | names:
            yield Misfit("cameras", key, "no image of the steps has this name")
    if len(cameras) < len(feature_map.cameras):
        yield Misfit("cameras", ", ".join(spec.cameras), "two cameras have one name")


_REFERENCE = f"{DATASET_METADATA_FILE} of an export of ARES"


@dataclass(frozen=True, slots=True)
class ExportedDatasetSpec:
    """The spec of a dataset that ARES exported.

    Attributes:
        spec: The spec.
        is_rate_assumed: Whether its rate was assumed when the dataset was exported.
    """

    spec: DatasetSpec
    is_rate_assumed: bool


def read_exported_spec(folder: Path, builtin: DatasetSpec | None) -> ExportedDatasetSpec | None:
    """The spec in the metadata.json of a dataset; None for a dataset that ARES did not export.

    Args:
        folder: Folder of the dataset.
        builtin: What ARES knows of the dataset by its name; it still holds where records were copied.

    Raises:
        SourceError: The file is not JSON, or what ARES writes into it has been changed to something wrong.
    """
    from pydantic import ValidationError

    from ares_ingest.spec import DatasetSpec

    path = folder / DATASET_METADATA_FILE
    try:
        document = read_json(str(path))
    except OSError:
        return None
    if not isinstance(document, dict) or not {"ares", "records", "spec"} <= document.keys():
        return None
    is_copied = document["records"] == "copied"
    base: dict[str, Any] = builtin.model_dump() if is_copied and builtin else {"reference": _REFERENCE}
    try:
        spec = DatasetSpec.model_validate(base | document["spec"] | {"rate_hz": document.get("rate_hz")})
    except (ValidationError, TypeError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SourceError("the spec of an exported dataset is wrong", f"{path}: {first}") from None
    return ExportedDatasetSpec(spec, document.get("rate_source") == "assumed")
