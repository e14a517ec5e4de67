"""The spec of an RLDS dataset as YAML, to be saved, edited and passed with --spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.episode import RateSource, Role
from ingest.mapping import spec_lines
from ingest.rlds.cameras import RldsCamera
from ingest.rlds.feature_map import RldsFeatureMap
from ingest.rlds.parts import MISFIT, FeatureSlice

if TYPE_CHECKING:
    from ingest.dataset_spec import CameraSpec, DatasetSpec, SliceSpec


def spec_to_yaml(
    dataset: str,
    feature_map: RldsFeatureMap,
    spec: DatasetSpec | None,
    rate_hz: float,
    rate_source: RateSource,
) -> str:
    """YAML of the spec, completed from the feature map, with the remaining features as comments.

    Args:
        dataset: Name of the dataset.
        feature_map: The role of each feature.
        spec: The spec that was used, or None.
        rate_hz: Steps per second.
        rate_source: Where the rate comes from.
    """
    from ingest.dataset_spec import DatasetSpec

    base_spec = spec or DatasetSpec(
        reference=f"features.json of {dataset}; state here where the rest comes from"
    )
    is_assumed = rate_source == "assumed"
    completed = base_spec.model_copy(
        update={
            "rate_hz": None if is_assumed else rate_hz,
            "cameras": {camera.name: _camera(camera, base_spec) for camera in feature_map.cameras},
            "state": _spec_slices(base_spec.state, feature_map, "state"),
            "action": _spec_slices(base_spec.action, feature_map, "action"),
            "reward": feature_map.reward.key if feature_map.reward else "",
            "language": tuple(getattr(part, "key", part) for part in feature_map.language),
        }
    )
    lines = [f"# {dataset}"]
    lines += [f"# rate_hz: {rate_hz:g}  # assumed; set it here, or with --rate"] if is_assumed else []
    lines += (
        ["# not verified with records by ARES: taken from its reference"]
        if spec and not spec.verified
        else []
    )
    lines += [*spec_lines(completed.model_dump(exclude_defaults=True, mode="json"))]
    lines += [f"# {warning}" for warning in (*feature_map.warnings, *feature_map.left_out)]
    lines += [f"# {key} is stored as a signal of its own" for key in feature_map.unknown]
    return "\n".join(lines) + "\n"


def _camera(camera: RldsCamera, spec: DatasetSpec) -> Role | CameraSpec:
    """The role of a camera; also its feature or its colours where the name or the `bgr` of the spec do not tell."""
    from ingest.dataset_spec import CameraSpec

    is_renamed = camera.name not in (
        camera.feature.name,
        camera.feature.key.removeprefix("steps/").replace("/", "."),
    )
    is_known = camera.channels == "rgb" or camera.name in spec.bgr
    if is_known and not is_renamed:
        return camera.role
    return CameraSpec(
        key=camera.feature.key if is_renamed else "",
        role=camera.role,
        channels=None if is_known else camera.channels,
    )


def _spec_slices(
    spec_slices: tuple[SliceSpec, ...], feature_map: RldsFeatureMap, signal: str
) -> tuple[SliceSpec, ...]:
    """The slices of the spec, with their units; those of the feature map when the spec has none, or none that fit."""
    from ingest.dataset_spec import SliceSpec

    slices: tuple[FeatureSlice, ...] = getattr(feature_map, signal)
    if spec_slices and not any(warning.startswith(MISFIT.format(signal)) for warning in feature_map.warnings):
        return spec_slices
    return tuple(
        SliceSpec(key=part.feature.key, start=part.start, stop=part.stop, names=part.names) for part in slices
    )
