"""Which camera and which episode the name of a video says."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ares.errors import RequestError

# A file name with this suffix, or a folder with this name, is a camera: no task is called "cam_high".
_CERTAIN_CAMERA = (
    r"(?:(?:left|right)[_-])?wrist(?:[_-](?:left|right|cam(?:era)?))?|(?:hand|eye_in_hand|gripper)_?cam(?:era)?|eye_in_hand"
    r"|cam(?:era)?[_-]?\d+|cam(?:era)?_[a-z]\w*|[a-z]+_?cam(?:era)?|ext(?:erior)?(?:_?image)?_?\d+(?:_(?:left|right))?"
    r"|image_\d+|ego|egocentric|overhead|agentview|front_?view|side_?view|top_?view|third_?person|first_?person"
    r"|observation\.images?\.\w+"
)

# The name of a task may have this suffix too: push_left, grasp_top, open_hand.
_POSSIBLE_CAMERA = (
    r"front|back|rear|left|right|top|side|head|hand|gripper|(?:left|right)_(?:hand|gripper)|exterior"
)

_CAMERA_NAME = re.compile(rf"(?P<certain>{_CERTAIN_CAMERA})|(?P<possible>{_POSSIBLE_CAMERA})", re.IGNORECASE)

_CAMERA_SUFFIX = re.compile(
    rf"(?P<stem>.+?)[_.-](?P<camera>(?:{_CERTAIN_CAMERA})|(?:{_POSSIBLE_CAMERA}))", re.IGNORECASE
)

_NUMBERED_CAMERA = re.compile(
    rf"(?P<camera>(?:{_CERTAIN_CAMERA})|(?:{_POSSIBLE_CAMERA}))[_.-](?P<number>\d+)", re.IGNORECASE
)

_PATTERN_TOKEN = re.compile(
    r"\{(?P<name>[^{}:]*)(?::(?P<choices>[^{}]*))?\}|(?P<any>\*)|(?P<text>[^{}*]+)|(?P<bad>.)"
)

ONLY_CAMERA = "video"


@dataclass(slots=True)
class VideosByEpisode:
    """Video files by episode and camera.

    Attributes:
        groups: By key of the episode: path by name of the camera.
        ambiguous: Files whose names may mean cameras or tasks; each is a separate episode.
        unmatched: Files that do not match the pattern of the user.
        paired: Cameras whose files are put together by their numbers alone.
    """

    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    ambiguous: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    paired: list[str] = field(default_factory=list)


def group_by_names(files: Iterable[str]) -> VideosByEpisode:
    """Group files whose names are unambiguous: see docs/why/005-cameras-by-name.md."""
    files = list(files)
    paired = _pair_by_number(files)
    in_pairs = {path for cameras in paired.values() for path in cameras.values()}
    groups: dict[str, dict[str, str]] = {}
    for path in files:
        if path in in_pairs:
            continue
        key, camera = _split_path(path)
        cameras = groups.setdefault(key, {})
        cameras[posixpath.basename(path) if camera in cameras else camera] = path
    certain_keys = {key for key, cameras in groups.items() if len(cameras) > 1 and _is_certain(key, cameras)}
    camera_names = {camera for key in certain_keys for camera in groups[key]}
    names = dict.fromkeys(camera for cameras in paired.values() for camera in cameras)
    result = VideosByEpisode(groups=dict(paired), paired=list(names))
    for key, cameras in groups.items():
        if key in certain_keys:
            result.groups[key] = cameras
            continue
        if len(cameras) > 1:
            result.ambiguous.extend(cameras.values())
        (first, *_) = cameras
        if len(cameras) == 1 and first in camera_names:
            # The other cameras of the episode may come later: it keeps its key then.
            result.groups[key] = cameras
        else:
            result.groups |= {path: {ONLY_CAMERA: path} for path in cameras.values()}
    return result


def _pair_by_number(files: Iterable[str]) -> dict[str, dict[str, str]]:
    """Cameras by key of the episode of files such as front_000.mp4 and wrist_000.mp4.

    A folder has some where two or more cameras have a file of each number, and no other file has such a name.
    """
    by_folder: dict[str, dict[str, dict[str, str]]] = {}
    for path in files:
        folder, name = posixpath.split(path)
        if match := _NUMBERED_CAMERA.fullmatch(posixpath.splitext(name)[0]):
            key = posixpath.join(folder, match["number"])
            by_folder.setdefault(folder, {}).setdefault(key, {})[match["camera"]] = path
    paired: dict[str, dict[str, str]] = {}
    for by_key in by_folder.values():
        cameras = {frozenset(group) for group in by_key.values()}
        if len(by_key) > 1 and len(cameras) == 1 and len(next(iter(cameras))) > 1:
            paired |= by_key
    return paired


def group_by_pattern(files: Iterable[str], pattern: str) -> VideosByEpisode:
    """Group files by a pattern such as "{episode}_{camera}.mp4". Raises RequestError for an invalid pattern."""
    regex = _compile_pattern(pattern)
    result = VideosByEpisode()
    for path in files:
        match = regex.fullmatch(path)
        if match is None:
            result.unmatched.append(path)
            continue
        key = (match["folders"] or "") + _episode_key(match)
        cameras = result.groups.setdefault(key, {})
        cameras[posixpath.basename(path) if match["camera"] in cameras else match["camera"]] = path
    return result


def _episode_key(match: re.Match[str]) -> str:
    """The episode with the text of the wildcards, which distinguishes episodes too."""
    wildcards = [match[name] for name in match.re.groupindex if name.startswith("any")]
    return "/".join([*wildcards, match["episode"]])


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    tokens = list(_PATTERN_TOKEN.finditer(pattern))
    names = [token["name"] for token in tokens if token["name"] is not None]
    if sorted(names) != ["camera", "episode"] or any(token["bad"] for token in tokens):
        raise RequestError(
            "--cameras needs {episode} and {camera}, each once",
            f"{pattern!r}; for example '{{episode}}_{{camera}}.mp4', '{{camera}}/{{episode}}.mp4', "
            "or '{episode}_{camera:front|left_wrist}.mp4'",
        )
    lists_cameras = any(token["choices"] for token in tokens)
    text = "".join(_token_regex(token, number, lists_cameras) for number, token in enumerate(tokens))
    suffix = "" if posixpath.splitext(pattern.rstrip("}"))[1] and not pattern.endswith("}") else r"\.[^/.]+"
    return re.compile(rf"(?P<folders>(?:[^/]+/)*?){text}{suffix}")


def _token_regex(token: re.Match[str], number: int, lists_cameras: bool) -> str:
    if token["text"]:
        return re.escape(token["text"])
    if token["any"]:
        return rf"(?P<any{number}>[^/]*)"
    if token["choices"]:
        return f"(?P<{token['name']}>{'|'.join(re.escape(name) for name in token['choices'].split('|'))})"
    # The camera is what follows the last separator, unless the cameras are listed.
    return f"(?P<{token['name']}>[^/]+{'?' if lists_cameras else ''})"


def _split_path(path: str) -> tuple[str, str]:
    """Key of the episode and name of the camera, from the path of a file."""
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    if _CAMERA_NAME.fullmatch(stem):
        return (folder, stem) if folder else (path, ONLY_CAMERA)
    match = _CAMERA_SUFFIX.fullmatch(stem)
    if match:
        return posixpath.join(folder, match["stem"]), match["camera"]
    parts = folder.split("/") if folder else []
    for number in range(len(parts) - 1, -1, -1):
        if _CAMERA_NAME.fullmatch(parts[number]):
            return "/".join([*parts[:number], *parts[number + 1 :], stem]), parts[number]
    return posixpath.join(folder, stem), ONLY_CAMERA


def _is_certain(key: str, cameras: Mapping[str, str]) -> bool:
    """Whether files are cameras of one episode for certain: a name means only a camera, or the key ends in a number.

    The number does not count where the cameras are folders: folders of tasks are numbered in the same way
    ("left/0001.mp4", "right/0001.mp4").
    """
    matches = [_CAMERA_NAME.fullmatch(camera) for camera in cameras]
    if any(match and match["certain"] for match in matches):
        return True
    folders = {posixpath.dirname(path) for path in cameras.values()}
    if len(folders) > 1:
        return any(camera.lower() == "front" for camera in cameras)
    return all(matches) and key[-1:].isdigit()
