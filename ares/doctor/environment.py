"""What this machine offers to ARES, from Python, GPU and codecs to the network and the model hub."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import getproxies

from ares.errors import RequestError
from ares.imports import EXTRA_MODULES
from ares.io import ask_hub, hub_constants, hub_url, local_file_path, read_server_address
from ares.jobs import available_cores, machine_memory
from ares.settings import Settings, config_path, environment_variables, settings_from_environment

if TYPE_CHECKING:
    from ares.episode import Json


_TIMEOUT_SECONDS = 2.0


def describe_network() -> str:
    """The hub, whether it answers, and the proxies of the environment without their passwords."""
    proxies = {name: _without_password(url) for name, url in getproxies().items() if name != "no"}
    listed = ", ".join(f"{name} {url}" for name, url in sorted(proxies.items()))
    return f"{_describe_hub()}; {f'proxy {listed}' if listed else 'no proxy'}"


def _describe_hub() -> str:
    state = "answers"
    if _is_hub_switched_off():
        state = "is switched off (HF_HUB_OFFLINE)"
    else:
        try:
            ask_hub(_TIMEOUT_SECONDS)
        except ConnectionError as error:
            state = f"cannot be reached ({error})"
    return f"{hub_url()} {state}"


def _is_hub_switched_off() -> bool:
    constants = hub_constants()
    return bool(constants and constants.HF_HUB_OFFLINE)


def _without_password(url: str) -> str:
    try:
        address = read_server_address(url)
    except ValueError:  # its text could have a part of the password
        return "(cannot be read)"
    return f"{address.host}:{address.port}" if address.port else address.host


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
        return {"name": self.name, "value": self.value, "advice": self.advice}


def describe_environment(workspace: str = "") -> list[EnvironmentFact]:
    """The facts in about ten lines; it takes some seconds at most, for the network.

    Args:
        workspace: Folder or URI of the workspace, or "" for that of the settings.
    """
    settings, settings_fact = _settings_and_fact()
    path = local_file_path(workspace or settings.workspace)
    facts: list[Callable[[], EnvironmentFact]] = [
        _python_fact,
        _extras_fact,
        _machine_fact,
        _gpu_fact,
        _torch_fact,
        lambda: _disk_fact(path, settings),
        _model_cache_fact,
        _video_fact,
        lambda: EnvironmentFact(name="network", value=describe_network()),
        lambda: _workspace_fact(path),
    ]
    return [*(fact() for fact in facts), settings_fact]


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
    advice = f"pip install 'ares-curation[{next(iter(missing))}]'" if missing else ""
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
        return EnvironmentFact(
            name="torch",
            value="not installed",
            advice="needed by models: pip install 'ares-curation[models]'",
        )
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


def _disk_fact(workspace: str, settings: Settings) -> EnvironmentFact:
    folders = {"workspace": workspace, "cache": settings.cache, "temporary files": _temporary_folder()}
    sizes = [f"{name} {_free_space(folder)}" for name, folder in folders.items() if "://" not in folder]
    return EnvironmentFact(name="free disk", value=", ".join(sizes))


def _temporary_folder() -> str:
    import tempfile

    return tempfile.gettempdir()


def _free_space(folder: str) -> str:
    """Free space of the file system that a folder is, or will be, on."""
    path = Path(folder).expanduser().absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        return f"{shutil.disk_usage(existing).free / 1e9:.0f} GB"
    except OSError as error:
        return str(error.strerror)


def _model_cache_fact() -> EnvironmentFact:
    constants = hub_constants()
    if constants is None:
        return EnvironmentFact(name="model cache", value="none (the extra models is not installed)")
    folder = Path(constants.HF_HUB_CACHE)
    models = sorted(path.name.removeprefix("models--") for path in folder.glob("models--*"))
    count = f"{len(models)} model{'' if len(models) == 1 else 's'}"
    return EnvironmentFact(name="model cache", value=f"{folder}, {count}; `ares models` lists those in use")


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
