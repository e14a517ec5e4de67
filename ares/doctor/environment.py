"""What a person needs to know of an installation: Python, extras, workspace and settings."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, install_command
from ares.io import local_file_path
from ares.settings import Settings, config_path, environment_variables, settings_from_environment

if TYPE_CHECKING:
    from ares.episode import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFact:
    """One line of `ares doctor --environment`.

    Attributes:
        name: What it is about ("extras").
        value: What there is.
        advice: What to do about it, or "".
    """

    name: str
    value: str
    advice: str = ""

    def to_json(self) -> dict[str, Json]:
        """One element of the document."""
        return asdict(self)


def describe_environment(workspace: str = "") -> list[EnvironmentFact]:
    """The facts in four lines.

    Args:
        workspace: Folder or URI of the workspace, or "" for that of the settings.
    """
    settings, settings_fact = _settings_and_fact()
    path = local_file_path(workspace or settings.workspace)
    return [
        _python_fact(),
        _extras_fact(),
        _workspace_fact(path),
        settings_fact,
    ]


def _python_fact() -> EnvironmentFact:
    return EnvironmentFact(
        name="Python",
        value=f"{platform.python_version()}, {sys.executable}; ARES {_package_version('ares-curation')}",
    )


def _extras_fact() -> EnvironmentFact:
    missing = {
        extra: modules for extra, modules in EXTRA_MODULES.items() if not all(map(_has_module, modules))
    }
    installed = [extra for extra in EXTRA_MODULES if extra not in missing]
    value = f"{', '.join(installed) or 'none'}" + (
        f"; not installed: {', '.join(missing)}" if missing else ""
    )
    advice = install_command(f"ares-curation[{next(iter(missing))}]") if missing else ""
    return EnvironmentFact(name="extras", value=value, advice=advice)


def _workspace_fact(workspace: str) -> EnvironmentFact:
    """What the file workspace.json says; nothing is opened."""
    import json

    if "://" in workspace:
        return EnvironmentFact(name="workspace", value=f"{workspace}, on an object store")
    path = Path(workspace).expanduser()
    try:
        document = json.loads((path / "workspace.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return EnvironmentFact(name="workspace", value=f"none at {path}", advice="`ares ingest` creates one")
    except (OSError, ValueError, RecursionError) as error:
        return EnvironmentFact(name="workspace", value=f"{path} cannot be read: {error}")
    known = document if isinstance(document, dict) else {}
    value = f"{path}, format {known.get('format')}, annotations in {known.get('annotations')}"
    return EnvironmentFact(name="workspace", value=value)


def _settings_and_fact() -> tuple[Settings, EnvironmentFact]:
    """The settings in use, or the defaults where they cannot be read."""
    variables = ", ".join(f"{name}={value}" for name, value in environment_variables().items())
    try:
        settings, path = settings_from_environment(), config_path()
    except RequestError as error:
        return Settings(), EnvironmentFact(name="settings", value=f"cannot be read: {error}")
    value = f"{path.absolute() if path else 'no ares.toml'}; {variables or 'no variable is set'}"
    return settings, EnvironmentFact(name="settings", value=value)


def _has_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
