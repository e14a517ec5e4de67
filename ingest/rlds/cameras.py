"""The cameras of an RLDS dataset: its image features, with the names, roles and colours that a spec gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Channels, Role
from ingest.names import camera_role
from ingest.rlds.features import Feature

if TYPE_CHECKING:
    from ingest.dataset_spec import CameraSpec, DatasetSpec


class RldsCamera(NamedTuple):
    """An image feature, with the name and role of its camera and the order of its colour channels."""

    feature: Feature
    name: str
    role: Role
    channels: Channels


def map_cameras(
    features: Sequence[Feature], spec: DatasetSpec, warnings: list[str]
) -> tuple[RldsCamera, ...]:
    """The cameras of the usable features; `warnings` gets those about their colours."""
    images = [feature for feature in features if feature.kind == "image"]
    names = [feature.name for feature in images]
    cameras = []
    for feature in images:
        own_name = feature.name
        if names.count(own_name) > 1:
            own_name = feature.key.removeprefix("steps/").replace("/", ".")
        if own_name in spec.left_out:
            continue
        name, part = _camera_of_spec(own_name, feature, spec)
        role = part.role or camera_role(name)
        channels = part.channels or _channel_order(feature, name, spec, warnings)
        cameras.append(RldsCamera(feature, name, role, channels))
    return tuple(cameras)


def _camera_of_spec(own_name: str, feature: Feature, spec: DatasetSpec) -> tuple[str, CameraSpec]:
    """The name that the spec gives to the camera of a feature, and what it says of it."""
    from ingest.dataset_spec import CameraSpec

    for name in spec.cameras:
        part = spec.camera(name)
        if (part.key or name) in (own_name, feature.key):
            return name if part.key else own_name, part
    return own_name, CameraSpec()


def _channel_order(feature: Feature, name: str, spec: DatasetSpec, warnings: list[str]) -> Channels:
    if name not in spec.bgr:
        return "rgb"
    size, declared = spec.bgr[name], feature.shape[:2]
    if size and None not in declared and declared != size:
        warnings.append(
            f"camera {name} is not of the size of the release whose red and blue are swapped, taken as RGB"
        )
        return "rgb"
    warnings.append(f"camera {name} has red and blue swapped at the source, its frames are given as RGB")
    return "bgr"
