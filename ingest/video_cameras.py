"""Which videos are the cameras of one episode: as their names tell without doubt, or by a pattern of the user."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ares.errors import RequestError

# A name that ends, or a folder that is named so, is a camera: no task is called "cam_high".
_SURE = (
    r"(?:(?:left|right)[_-])?wrist(?:[_-](?:left|right|cam(?:era)?))?|(?:hand|eye_in_hand|gripper)_?cam(?:era)?|eye_in_hand"
    r"|cam(?:era)?[_-]?\d+|cam(?:era)?_[a-z]\w*|[a-z]+_?cam(?:era)?|ext(?:erior)?(?:_?image)?_?\d+(?:_(?:left|right))?"
    r"|image_\d+|ego|egocentric|overhead|agentview|front_?view|side_?view|top_?view|third_?person|first_?person"
    r"|observation\.images?\.\w+"
)
# A task may end so too: push_left, grasp_top, open_hand.
_UNSURE = r"front|back|rear|left|right|top|side|head|hand|gripper|(?:left|right)_(?:hand|gripper)|exterior"
_CAMERA = re.compile(rf"(?P<sure>{_SURE})|(?P<unsure>{_UNSURE})", re.IGNORECASE)
_ENDING = re.compile(rf"(?P<stem>.+?)[_.-](?P<camera>(?:{_SURE})|(?:{_UNSURE}))", re.IGNORECASE)
_HOLE = re.compile(r"\{(?P<name>[^{}:]*)(?::(?P<choices>[^{}]*))?\}|(?P<any>\*)|(?P<text>[^{}*]+)|(?P<bad>.)")
ONE_CAMERA = "video"


@dataclass(slots=True)
class Cameras:
    """The episodes of a list of files.

    Attributes:
        groups: Path of each camera by name, by the episode's key.
        unsure: Names that may be cameras or tasks; each of their files is an episode of its own.
        unmatched: Files that the pattern of the user does not match.
    """

    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def by_names(files: Iterable[str]) -> Cameras:
    """Episodes by what the names tell without doubt: see docs/why/005-cameras-by-name.md."""
    groups: dict[str, dict[str, str]] = {}
    for path in files:
        key, camera = _named(path)
        cameras = groups.setdefault(key, {})
        cameras[posixpath.basename(path) if camera in cameras else camera] = path
    joined = {key for key, cameras in groups.items() if len(cameras) > 1 and _certain(key, cameras)}
    known = {camera for key in joined for camera in groups[key]}
    made = Cameras()
    for key, cameras in groups.items():
        if key in joined:
            made.groups[key] = cameras
            continue
        if len(cameras) > 1:
            made.unsure.extend(cameras.values())
        for camera, path in cameras.items():
            made.groups[path] = {camera if camera in known and len(cameras) == 1 else ONE_CAMERA: path}
    return made


def by_pattern(files: Iterable[str], pattern: str) -> Cameras:
    """Episodes by a pattern such as "{episode}_{camera}.mp4". Raises RequestError for one that is none."""
    matches = _compiled(pattern)
    made = Cameras()
    for path in files:
        found = matches.fullmatch(path)
        if found is None:
            made.unmatched.append(path)
            continue
        key = (found["folders"] or "") + _without(path, found)
        cameras = made.groups.setdefault(key, {})
        cameras[posixpath.basename(path) if found["camera"] in cameras else found["camera"]] = path
    return made


def _without(path: str, found: re.Match[str]) -> str:
    """The episode with the folders that the pattern left open, which set it apart too."""
    opened = [found[name] for name in found.re.groupindex if name.startswith("any")]
    return "/".join([*opened, found["episode"]])


def _compiled(pattern: str) -> re.Pattern[str]:
    holes = list(_HOLE.finditer(pattern))
    names = [hole["name"] for hole in holes if hole["name"] is not None]
    if sorted(names) != ["camera", "episode"] or any(hole["bad"] for hole in holes):
        raise RequestError(
            "--cameras needs {episode} and {camera}, each once",
            f"{pattern!r}; for example '{{episode}}_{{camera}}.mp4', '{{camera}}/{{episode}}.mp4', "
            "or '{episode}_{camera:front|left_wrist}.mp4'",
        )
    choices = any(hole["choices"] for hole in holes)
    text = "".join(_part(hole, number, choices) for number, hole in enumerate(holes))
    ending = "" if posixpath.splitext(pattern.rstrip("}"))[1] and not pattern.endswith("}") else r"\.[^/.]+"
    return re.compile(rf"(?P<folders>(?:[^/]+/)*?){text}{ending}")


def _part(hole: re.Match[str], number: int, choices: bool) -> str:
    if hole["text"]:
        return re.escape(hole["text"])
    if hole["any"]:
        return rf"(?P<any{number}>[^/]*)"
    if hole["choices"]:
        return f"(?P<{hole['name']}>{'|'.join(re.escape(one) for one in hole['choices'].split('|'))})"
    # The camera is what follows the last separator, unless the cameras are listed.
    return f"(?P<{hole['name']}>[^/]+{'?' if choices else ''})"


def _named(path: str) -> tuple[str, str]:
    """Key of the episode and name of the camera, as the path of a file tells."""
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    if _CAMERA.fullmatch(stem):
        return (folder, stem) if folder else (path, ONE_CAMERA)
    ending = _ENDING.fullmatch(stem)
    if ending:
        return posixpath.join(folder, ending["stem"]), ending["camera"]
    parts = folder.split("/") if folder else []
    for number in range(len(parts) - 1, -1, -1):
        if _CAMERA.fullmatch(parts[number]):
            return "/".join([*parts[:number], *parts[number + 1 :], stem]), parts[number]
    return posixpath.join(folder, stem), ONE_CAMERA


def _certain(key: str, cameras: Mapping[str, str]) -> bool:
    """Whether files are surely the cameras of one episode: one is named like nothing else, or the rest is a number.

    Folders that may be tasks ("left/0001.mp4", "right/0001.mp4") are numbered alike, so there a number says nothing.
    """
    words = [_CAMERA.fullmatch(camera) for camera in cameras]
    if any(word and word["sure"] for word in words):
        return True
    folders = {posixpath.dirname(path) for path in cameras.values()}
    if len(folders) > 1:
        return any(camera.lower() == "front" for camera in cameras)
    return all(words) and key[-1:].isdigit()
