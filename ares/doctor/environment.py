"""What this machine offers to ARES: Python, extras, GPU, codecs, workspace and settings."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.imports import EXTRA_MODULES, install_command
from ares.io import local_file_path
from ares.jobs import available_cores, machine_memory
from ares.settings import Settings, config_path, environment_variables, settings_from_environment

if TYPE_CHECKING:
    from ares.episode import Json


_SECONDS_PER_PROGRAM = 5.0
_DECODERS, _ENCODERS = ("h264", "hevc", "av1", "vp9"), ("libx264", "libsvtav1")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFact:
    """One line of `ares doctor --environment`.

    Attributes:
        name: What it is about ("GPU").
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
    """The facts in eight lines.

    Args:
        workspace: Folder or URI of the workspace, or "" for that of the settings.
    """
    settings, settings_fact = _settings_and_fact()
    path = local_file_path(workspace or settings.workspace)
    return [
        _python_fact(),
        _extras_fact(),
        _machine_fact(),
        _gpu_fact(),
        _torch_fact(),
        _video_fact(),
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


def _machine_fact() -> EnvironmentFact:
    total, free = machine_memory()
    memory = f"{total / 1e9:.0f} GB memory, {free / 1e9:.0f} GB free" if total else "memory unknown"
    system = f"{platform.system()} {platform.machine()}"
    return EnvironmentFact(name="machine", value=f"{available_cores()} cores, {memory}; {system}")


def _gpu_fact() -> EnvironmentFact:
    gpus = list(_list_gpus())
    return EnvironmentFact(name="GPU", value="; ".join(gpus) or _without_gpu())


def _list_gpus() -> Iterator[str]:
    """Name, memory and driver of each NVIDIA GPU, as nvidia-smi lists them."""
    query = "--query-gpu=name,memory.total,memory.free,driver_version"
    for line in _output_of("nvidia-smi", query, "--format=csv,noheader,nounits").splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit():
            name, total, free, driver = parts
            yield f"{name}, {int(total) / 1024:.0f} GiB, {int(free) / 1024:.0f} GiB free, driver {driver}"


def _without_gpu() -> str:
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "Apple GPU (--device mps)"
    return "none" if shutil.which("nvidia-smi") else "none (no nvidia-smi)"


def _torch_fact() -> EnvironmentFact:
    """Version and build of torch, read from its files: importing it takes seconds."""
    if not _has_module("torch"):
        advice = f"needed by models: {install_command('ares-curation[models]')}"
        return EnvironmentFact(name="torch", value="not installed", advice=advice)
    cuda = _torch_cuda()
    value = f"{_package_version('torch')}, {f'CUDA {cuda}' if cuda else 'for the CPU'}"
    is_wrong = not cuda and any(_list_gpus())
    advice = "there is a GPU: install a CUDA build of torch" if is_wrong else ""
    return EnvironmentFact(name="torch", value=value, advice=advice)


def _torch_cuda() -> str:
    spec = find_spec("torch")
    try:
        text = (Path(str(spec and spec.origin)).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"^cuda[^=]*= *'([^']+)'", text, flags=re.M)
    return match[1] if match else ""


def _video_fact() -> EnvironmentFact:
    import av
    from av.codec import codecs_available

    missing = [name for name in (*_DECODERS, *_ENCODERS) if name not in codecs_available]
    decoders = ", ".join(name for name in _DECODERS if name in codecs_available)
    encoders = ", ".join(name for name in _ENCODERS if name in codecs_available)
    program = _output_of("ffmpeg", "-version").partition("\n")[0].partition(" Copyright")[0]
    value = f"PyAV {av.__version__}: reads {decoders}; writes {encoders}; {program or 'no ffmpeg program (not needed)'}"
    advice = f"PyAV lacks {', '.join(missing)}: pip install --force-reinstall av" if missing else ""
    return EnvironmentFact(name="video", value=value, advice=advice)


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


def _output_of(*command: str) -> str:
    """Standard output of a program, or "" when it is not there or fails."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_PER_PROGRAM)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


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
