"""Docker files: no start without passwords, nothing published but the dashboard, and a health check that logs in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCKER = Path(__file__).resolve().parent.parent / "docker"


@pytest.fixture
def services() -> dict[str, Any]:
    document = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    services: dict[str, Any] = document["services"]
    return services


def test_every_password_must_be_given(services: dict[str, Any]) -> None:
    secrets = re.findall(r"\$\{([A-Z_]*PASSWORD)([^}]*)\}", (DOCKER / "compose.yaml").read_text())
    assert {name for name, _ in secrets} == {"ARES_MONGO_PASSWORD", "ARES_APP_PASSWORD"}
    assert all(rest.startswith(":?") for _, rest in secrets)
    assert re.findall(r"PASSWORD=(.*)", (DOCKER / ".env.example").read_text()) == ["", ""]


def test_only_the_dashboard_is_published_and_only_to_this_machine(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"app": ["127.0.0.1:8501:8501"]}


def test_app_and_worker_wait_for_a_database_that_answers(services: dict[str, Any]) -> None:
    assert services["mongodb"]["healthcheck"]["test"]
    for name in ("app", "worker"):
        assert services[name]["depends_on"]["mongodb"]["condition"] == "service_healthy"


def test_the_image_copies_what_is_there_and_drops_its_rights() -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text()
    paths = [
        name for line in re.findall(r"^COPY (.+)$", dockerfile, flags=re.M) for name in line.split()[:-1]
    ]
    assert paths
    assert not [path for path in paths if not (DOCKER.parent / path).exists()]
    assert re.findall(r"^USER (\w+)$", dockerfile, flags=re.M) == ["ares"]


def test_the_image_has_the_uv_of_the_set_up() -> None:
    pins = [
        re.findall(r"uv==[\d.]+", (DOCKER.parent / name).read_text())
        for name in ("docker/Dockerfile", "scripts/setup.sh")
    ]
    assert pins[0] == pins[1] != []


@pytest.mark.parametrize(("password", "healthy"), [("right", True), ("wrong", False)])
def test_the_health_check_logs_in(password: str, healthy: bool, tmp_path: Path) -> None:
    class Guarded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            accepted = (
                self.path == "/api/health" and self.headers["Authorization"] == "Basic aGVhbHRoOnJpZ2h0"
            )
            self.send_response(200 if accepted else 401)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = tmp_path / "healthy.py"
        program.write_text((DOCKER / "healthy.py").read_text().replace(":8501", f":{server.server_port}"))
        process = subprocess.run(
            [sys.executable, program],
            env={**os.environ, "ARES_APP_PASSWORD": password},
            capture_output=True,
        )
        server.shutdown()
    assert (process.returncode == 0) == healthy
