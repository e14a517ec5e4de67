"""The files of a ROS 2 recording, as the metadata.yaml of rosbag2 lists them."""

from __future__ import annotations

from pathlib import Path

from ares.errors import SourceError
from ares.input import read_yaml
from ares.io import describe_os_error, parse_path

ROSBAG2_METADATA = "metadata.yaml"


def recording_files(uri: str) -> list[str]:
    """The files of a recording in order: a single file itself, or those that rosbag2's metadata.yaml lists.

    Raises SourceError for a metadata.yaml that cannot be read, or lists a file outside its folder.
    """
    path = parse_path(uri)
    if path.name != ROSBAG2_METADATA:
        return [uri]
    names = _listed_files(path)
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise SourceError("a file of the recording lies outside its folder", f"{uri}: {outside[0]!r}")
    return [str(path.parent / name) for name in names]


def _listed_files(path: Path) -> list[str]:
    try:
        document = read_yaml(str(path))
    except OSError as error:
        raise SourceError("metadata.yaml cannot be read", f"{path}: {describe_os_error(error)}") from None
    bag = document.get("rosbag2_bagfile_information") if isinstance(document, dict) else None
    names = bag.get("relative_file_paths") if isinstance(bag, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise SourceError("metadata.yaml lists no files", f"{path}: rosbag2_bagfile_information")
    return names
