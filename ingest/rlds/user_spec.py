"""Checks a spec of the user against the features of an RLDS dataset: what it names must exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.episode import SourceArray
from ares.errors import SourceError
from ares.registry import did_you_mean
from ingest.mapping import describe_arrays
from ingest.rlds.feature_map import RldsFeatureMap
from ingest.rlds.features import Feature
from ingest.rlds.parts import Misfit

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

_ABSENT = "it does not exist"


def require_fit(
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
        SourceArray(key=f.key, use="unused", shape=_shape(f), dtype=f.dtype if f.kind == "number" else f.kind)
        for f in features
    )
    hint = did_you_mean(misfit.key, [feature.key for feature in features])
    raise SourceError(
        "spec does not fit the dataset",
        f"{where}: {misfit.field} names {misfit.key!r}: {misfit.reason}; {hint}it holds {contents}",
    )


def _shape(feature: Feature) -> tuple[int, ...]:
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
    for key in spec.left_out:
        if key not in keys | names:
            yield Misfit("left_out", key, _ABSENT)
    for name in spec.cameras:
        key = spec.camera(name).key or name
        if key not in cameras | images | names:
            yield Misfit("cameras", key, "no image of the steps has this name")
    if len(cameras) < len(feature_map.cameras):
        yield Misfit("cameras", ", ".join(spec.cameras), "two cameras have one name")
