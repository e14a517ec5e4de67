"""Docker files: no start without passwords, nothing published but the dashboard, and a health check that logs in."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.settings import _VARIABLES
from ares_app.cli.main import build_parser

DOCKER = Path(__file__).resolve().parent.parent / "docker"


@pytest.fixture
def services() -> dict[str, Any]:
    document = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    services: dict[str, Any] = document["services"]
    return services


def test_the_dashboard_needs_a_password_and_none_is_preset(services: dict[str, Any]) -> None:
    required = re.findall(r"\$\{([A-Z_]+):\?", (DOCKER / "compose.yaml").read_text())
    assert set(required) == {"ARES_APP_PASSWORD", "ARES_DATA"}
    assert re.findall(r"PASSWORD=(.*)", (DOCKER / ".env.example").read_text()) == ["", ""]


def test_mongodb_has_a_password_wherever_it_is_used(services: dict[str, Any]) -> None:
    """With the password, ARES uses MongoDB; without it, SQLite, and MongoDB refuses to start."""
    uri = services["app"]["environment"]["ARES_MONGO_URI"]
    assert re.fullmatch(
        r"\$\{ARES_MONGO_PASSWORD:\+mongodb://ares:\$\{ARES_MONGO_PASSWORD\}@mongodb:27017/\S+\}", uri
    )
    assert services["mongodb"]["environment"] == {
        "MONGO_INITDB_ROOT_USERNAME": "ares",
        "MONGO_INITDB_ROOT_PASSWORD": "${ARES_MONGO_PASSWORD:-}",
    }


def test_only_the_dashboard_starts_without_a_profile_and_is_published_to_this_machine(
    services: dict[str, Any],
) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"app": ["127.0.0.1:8501:8501"]}
    assert [name for name, service in services.items() if "profiles" not in service] == ["app"]


def test_docker_compose_reads_the_file() -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"]).returncode:
        pytest.skip("no `docker compose` here")
    values = {"ARES_APP_PASSWORD": "right", "ARES_DATA": "/data", "ARES_MONGO_PASSWORD": "other"}
    command: list[str | Path] = [
        "docker",
        "compose",
        "-f",
        DOCKER / "compose.yaml",
        "--profile",
        "*",
        "config",
        "-q",
    ]
    done = subprocess.run(command, env={**os.environ, **values}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_of_the_files_are_those_of_ares(services: dict[str, Any]) -> None:
    shown = [
        line.split("  ")[0].split()
        for name in ("docker/compose.yaml", "docs/install.md")
        for line in re.findall(r"docker compose run \S.* (ares .+)", (DOCKER.parent / name).read_text())
    ]
    shown += [service["command"] for service in services.values() if "ares" in service.get("command", ())]
    assert ["ares", "demo", "--no-serve", "-w", "/workspace/demo"] in shown and len(shown) > 8
    for _, *arguments in shown:
        build_parser(arguments[0]).parse_args(arguments)


def test_everything_of_ares_waits_for_a_database_that_answers(services: dict[str, Any]) -> None:
    assert services["mongodb"]["healthcheck"]["test"]
    for name in ("app", "jobs", "gpu"):
        dependency = services[name]["depends_on"]["mongodb"]
        assert dependency == {"condition": "service_healthy", "required": False}


def test_no_service_has_rights_that_it_does_not_need(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"]), "not root"
        assert "privileged" not in service and "cap_add" not in service


def test_every_setting_and_credential_is_passed_on(services: dict[str, Any]) -> None:
    """What the manual names must reach the container; the workspace and its caches lie on volumes there."""
    manual = "".join(path.read_text() for path in (DOCKER.parent / "docs").glob("*.md"))
    settings = (DOCKER.parent / "ares" / "settings.py").read_text()
    names = set(re.findall(r'"((?:ARES|OPENAI|RAY)_[A-Z_]+)"', settings)) | set(_VARIABLES.values())
    names |= set(re.findall(r"`((?:AWS|FSSPEC|HF)_[A-Z0-9_]+)(?:=\w+)?`", manual))
    on_volumes = {"ARES_WORKSPACE", "ARES_CACHE", "HF_HOME"}
    assert len(names) > 10
    for name in ("app", "jobs", "gpu"):
        assert names - services[name]["environment"].keys() == on_volumes


def test_the_image_copies_what_is_there_and_drops_its_rights() -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text()
    paths = [
        name for line in re.findall(r"^COPY (.+)$", dockerfile, flags=re.M) for name in line.split()[:-1]
    ]
    assert paths
    assert not [path for path in paths if not (DOCKER.parent / path).exists()]
    sent = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert not [path for path in paths if f"!{path}" not in sent]
    assert sorted(line for line in sent if not line.startswith("!")) == ["*", "**/__pycache__"], (
        "the demo too"
    )
    assert re.findall(r"^USER (\w+)$", dockerfile, flags=re.M) == ["ares"]


def test_the_image_has_the_uv_of_the_set_up() -> None:
    pins = [
        re.findall(pattern, (DOCKER.parent / name).read_text(), flags=re.M)
        for name, pattern in (("docker/Dockerfile", r"uv==([\d.]+)"), ("scripts/setup.sh", r"^UV=([\d.]+)$"))
    ]
    assert pins[0] == pins[1] != []


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """What the Dockerfile makes with EXTRAS=app, run here: /opt/ares and /opt/venv as folders `ares` and `venv`."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip(f"no uv at {uv}: scripts/setup.sh installs it")
    for line in re.findall(r"^(?:COPY|RUN \./).+$", (DOCKER / "Dockerfile").read_text(), flags=re.M):
        command, *words = line.split()
        if command == "COPY":
            _copy(words[:-1], tmp_path / "ares" / words[-1])
            continue
        script = tmp_path / "ares" / "install.sh"
        # Compiling all libraries would be most of the work, and this environment starts twice.
        script.write_text(script.read_text().replace(" --compile-bytecode", ""))
        done = subprocess.run(
            ["sh", "-c", " ".join(words)],
            cwd=tmp_path / "ares",
            env={
                **os.environ,
                "PATH": f"{uv.parent}:{os.environ['PATH']}",
                "VENV": str(tmp_path / "venv"),
                "EXTRAS": "app",
            },
            capture_output=True,
            text=True,
        )
        if "error sending request" in done.stderr:
            pytest.skip("the package index cannot be reached")
        assert done.returncode == 0, done.stderr
    return tmp_path


def _copy(paths: list[str], target: Path) -> None:
    """COPY of a Dockerfile, with what the dockerignore file leaves, of a clone that only its owner may read."""
    for path in paths:
        source = DOCKER.parent / path
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            (target / "__init__.py").chmod(0o600)
        else:
            copy = target / source.name if len(paths) > 1 or target.name in ("", "ares") else target
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)


@pytest.mark.slow
def test_the_commands_of_the_image_serve_a_new_workspace_behind_its_password(image: Path) -> None:
    """The same commands outside Docker, with another port; the health check is that of compose.yaml.

    Of EXTRAS=app the demo lacks no more than its models' library, and another user may read all files.
    """
    command: list[str | Path] = [image / "venv" / "bin" / "ares", "demo", "--no-serve", "-w", image / "demo"]
    without = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=image, env=without, capture_output=True, text=True)
    assert "'ares-curation[models]'" in done.stderr, done.stderr
    (demo,) = (path.parent for path in (image / "venv" / "lib").rglob("demo/candidates.txt"))
    files = [path for folder in (demo, image / "ares") for path in folder.rglob("*")]
    assert not [path for path in files if path.stat().st_mode & 0o004 == 0]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name in ("serve.sh", "healthy.py"):
        script = image / "ares" / name
        text = script.read_text().replace("ares app", f"ares app --port {port}")
        script.write_text(text.replace(":8501", f":{port}"))
    environ = {
        **without,
        "PATH": f"{image / 'venv' / 'bin'}:{os.environ['PATH']}",
        "ARES_WORKSPACE": str(image / "workspace"),
        "ARES_APP_PASSWORD": "right",
        "ARES_MONGO_URI": "",
    }
    command = [str(image / "ares" / "serve.sh")]
    with subprocess.Popen(command, cwd=image, env=environ, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert any(f"ARES dashboard: http://0.0.0.0:{port}" in line for line in server.stderr)
            assert _is_healthy(image, environ)
            assert not _is_healthy(image, {**environ, "ARES_APP_PASSWORD": "wrong"})
            assert (image / "workspace" / "workspace.json").exists()
        finally:
            server.terminate()


def _is_healthy(image: Path, environ: dict[str, str]) -> bool:
    command = [image / "venv" / "bin" / "python", image / "ares" / "healthy.py"]
    return subprocess.run(command, env=environ, capture_output=True).returncode == 0
