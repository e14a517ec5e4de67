"""Path templates of LeRobot datasets: what their placeholders stand for, filled with values, matched against files."""

from __future__ import annotations

import functools
import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ares.errors import SourceError
from ares.input import check_path_template, check_relative_path

PathRole = Literal["episode", "file", "chunk", "camera"]

_FIELD = re.compile(r"\{(\w+)(:\d*d?)?\}")
_CAMERA_NAMES = re.compile(r"video|cam|key|view|image", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PathField:
    """A placeholder of a template.

    Attributes:
        name: Its name, "episode_index" and the like.
        role: What it stands for.
        digits: Digits that a number is padded to.
    """

    name: str
    role: PathRole
    digits: int


@dataclass(frozen=True, slots=True)
class RoleTemplate:
    """A relative path with placeholders.

    Attributes:
        text: As written in info.json.
        parts: Literal texts and placeholders, in order.
        roles: What the placeholders stand for.
    """

    text: str
    parts: tuple[str | PathField, ...] = field(hash=False)
    roles: frozenset[PathRole] = field(hash=False)

    def has(self, role: PathRole) -> bool:
        """Whether a placeholder stands for this."""
        return role in self.roles

    def fill(self, values: Mapping[PathRole, int | str]) -> str:
        """The path; a value that is not given counts as 0. Raises SourceError when a value leads out of the dataset."""
        path = "".join(
            part if isinstance(part, str) else _write_value(values.get(part.role, 0), part.digits)
            for part in self.parts
        )
        return check_relative_path(path, f"path template {self.text!r}")

    def glob(self, camera: str) -> str:
        """Pattern of all files of a camera ("" for data files)."""
        return "".join(
            glob.escape(part)
            if isinstance(part, str)
            else glob.escape(camera)
            if part.role == "camera" and camera
            else "*"
            for part in self.parts
        )

    def match(self, path: str, role: PathRole) -> int | None:
        """The number that a path has in place of a placeholder; None when the path does not fit the template."""
        match = _pattern(self).fullmatch(path)
        text = match.groupdict().get(role) if match else None
        return int(text) if text else None


def _write_value(value: int | str, digits: int) -> str:
    return value if isinstance(value, str) else str(value).zfill(digits)


@functools.lru_cache(maxsize=256)
def fill_data_path(root: str, template: RoleTemplate, episode: int, chunk: int, file: int) -> str:
    """The path of a data file that a template gives; many episodes share one. Raises as `RoleTemplate.fill`."""
    return f"{root}/{template.fill({'episode': episode, 'chunk': chunk, 'file': file})}"


@functools.lru_cache(maxsize=64)
def _pattern(template: RoleTemplate) -> re.Pattern[str]:
    """The regular expression of a template; a role that occurs again is not captured twice."""
    text, seen = "", set[str]()
    for part in template.parts:
        if isinstance(part, str):
            text += re.escape(part)
            continue
        content = r"[^/]+" if part.role == "camera" else r"\d{1,20}"
        text += f"(?:{content})" if part.role in seen else f"(?P<{part.role}>{content})"
        seen.add(part.role)
    return re.compile(text)


@functools.lru_cache(maxsize=64)
def parse_template(text: str, field: str) -> RoleTemplate:
    """Parse a path template.

    Args:
        text: The template, with placeholders `{name}` and `{name:0Nd}` of any name.
        field: Its name in info.json, for messages: "data_path" or "video_path".

    Raises:
        SourceError: It has other placeholders, or leaves the dataset.
    """
    try:
        check_path_template(text, f"{field} in info.json")
    except SourceError as error:
        if "leads out" in error.reason:
            raise SourceError(f"{field} in info.json points outside the dataset", error.detail) from None
        raise SourceError(f"{field} in info.json is not a path template", error.detail) from None
    matches = list(_FIELD.finditer(text))
    roles = _roles([(match[1], match[2] or "") for match in matches], is_video=field == "video_path")
    parts: list[str | PathField] = []
    end = 0
    for match, role in zip(matches, roles, strict=True):
        digits = int((match[2] or "").strip(":d") or 0)
        parts += [text[end : match.start()], PathField(match[1], role, digits)]
        end = match.end()
    return RoleTemplate(text, (*(part for part in parts if part), text[end:]), frozenset(roles))


def template_fault(text: str, field: str) -> str:
    """Why a text is no path template; "" where it is one. Raises SourceError when it leaves the dataset."""
    try:
        parse_template(text, field)
    except SourceError as error:
        if "outside" in error.reason:
            raise
        return f"{error.reason}: files are found by their names"
    return ""


def _roles(fields: list[tuple[str, str]], is_video: bool) -> list[PathRole]:
    """What placeholders stand for: by their names, else a text is the camera, and the last number the episode."""
    roles: list[PathRole | None] = [_role_by_name(name, padding, is_video) for name, padding in fields]
    if is_video and "camera" not in roles:
        texts = [number for number, (_, padding) in enumerate(fields) if not padding and not roles[number]]
        if texts:
            roles[texts[0]] = "camera"
    unknown = [number for number, role in enumerate(roles) if role is None]
    if unknown and "episode" not in roles and "file" not in roles:
        roles[unknown[-1]] = "episode"
    return [role or "chunk" for role in roles]


def _role_by_name(name: str, padding: str, is_video: bool) -> PathRole | None:
    lowered = name.lower()
    if "chunk" in lowered:
        return "chunk"
    if lowered.startswith("ep"):
        return "episode"
    if "file" in lowered:
        return "file"
    return "camera" if is_video and not padding and _CAMERA_NAMES.search(lowered) else None
