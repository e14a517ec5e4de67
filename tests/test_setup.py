"""scripts/setup.sh on other machines: no Python, an old one, no flock. Stand-ins log what they are asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPTS = ROOT / "scripts"
# What POSIX has; neither flock nor sha256sum, which macOS lacks.
TOOLS = ("bash", "cat", "cksum", "dirname", "env", "id", "mkdir", "rm", "sh", "sleep")

# An interpreter that says that it is of another version; `-m` only writes what would be made.
PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >>"{log}"
case "$*" in
    *ensurepip*) [ "{ensurepip}" = yes ] && exit 0; exit 1 ;;
    -c*) exec "{real}" -c "import sys; sys.version_info = ({version}, 0); $2" ;;
    "-m venv"*) sleep 0.3; "{make_venv}" ;;
    "-m pip"*--target*) [ "{pip}" = yes ] || exit 1; mkdir -p .cache/uv/bin; cp "{uv}" .cache/uv/bin/uv ;;
    "-m pip"*) cp "{uv}" .venv/bin/uv ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >>"{log}"
case "$1" in
    venv) "{make_venv}" ;;
    pip) [ ! -e "{parent}/uv-fails" ] ;;
esac
"""
MAKE_VENV = """#!/bin/sh
mkdir -p .venv/bin
cp "{parent}/python3.11" .venv/bin/python
cp "{parent}/python3.11" .venv/bin/pip
"""
INSTALLER = """#!/bin/sh
echo "{name} $*" >>"{log}"
while [ $# -gt 1 ]; do case "$1" in -o | -O) file=$2 ;; esac; shift; done
printf 'mkdir -p "$UV_UNMANAGED_INSTALL"; cp "{uv}" "$UV_UNMANAGED_INSTALL/uv"' >"$file"
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine with few programs on its PATH, a clone without environment, and stand-ins that are not on the PATH."""

    clone: Path
    path: Path
    parts: Path

    def python(self, name: str, version: str, *, pip: bool = True, ensurepip: bool = True) -> None:
        """Put an interpreter on the PATH."""
        write_program(self.path / name, self._python(version, pip=pip, ensurepip=ensurepip))

    def uv(self) -> None:
        """Put uv on the PATH."""
        shutil.copy(self.parts / "uv", self.path / "uv")

    def downloader(self, name: str) -> None:
        """Put curl or wget on the PATH; it fetches an installer of uv."""
        write_program(self.path / name, INSTALLER.format(name=name, log=self._log, uv=self.parts / "uv"))

    def start(self, kind: str = "run", **variables: str) -> subprocess.Popen[str]:
        """Start the set-up."""
        command = [str(self.path / "bash"), "scripts/setup.sh", kind]
        environ = {"PATH": str(self.path), "HOME": str(self.clone), **variables}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.clone, env=environ, stdout=pipe, stderr=pipe, text=True)

    def set_up(self, kind: str = "run", **variables: str) -> tuple[int, str]:
        """Run the set-up. Returns its exit status and its messages."""
        process = self.start(kind, **variables)
        printed, messages = process.communicate()
        assert printed == ""
        return process.returncode, messages

    def log(self) -> list[str]:
        """The commands that stand-ins were given since the last call, without questions for versions."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [line for line in lines if not re.match(r"\S+ -c |uv --version", line)]

    @property
    def _log(self) -> Path:
        return self.parts / "log"

    def _python(self, version: str, *, pip: bool, ensurepip: bool) -> str:
        return PYTHON.format(
            log=self._log,
            real=sys.executable,
            version=version,
            make_venv=self.parts / "make_venv",
            uv=self.parts / "uv",
            pip="yes" if pip else "no",
            ensurepip="yes" if ensurepip else "no",
        )

    def write_parts(self) -> None:
        """Write the stand-ins that the others copy."""
        for name, text in (("uv", UV), ("make_venv", MAKE_VENV)):
            program = text.format(log=self._log, parent=self.parts, make_venv=self.parts / "make_venv")
            write_program(self.parts / name, program)
        write_program(self.parts / "python3.11", self._python("3, 11", pip=True, ensurepip=True))


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def link_tools(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or pytest.skip(f"this machine has no {name}"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    clone, path, parts = (tmp_path / name for name in ("clone", "bin", "parts"))
    for folder in (clone, path, parts):
        folder.mkdir()
    shutil.copytree(SCRIPTS, clone / "scripts")
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        (clone / name).write_text(f"{name}\n")
    link_tools(path, (*TOOLS, "basename", "cp"))
    machine = Machine(clone=clone, path=path, parts=parts)
    machine.write_parts()
    return machine


RUN = [
    "uv pip install --quiet --compile-bytecode -r requirements.lock",
    "uv pip install --quiet --no-deps -e .",
]
DEV = [line.replace("requirements", "requirements-dev") for line in RUN]
UV_VERSION = re.findall(r"^UV=([0-9.]+)$", (SCRIPTS / "setup.sh").read_text(), flags=re.M)[0]
PIN = f"python -m pip install --quiet --disable-pip-version-check uv=={UV_VERSION}"
BY_UV = "uv venv --quiet --no-project --seed --python 3.11 .venv"


def test_a_python_of_the_right_version_makes_the_environment_once(machine: Machine) -> None:
    machine.python("python3", "3, 12")
    status, messages = machine.set_up()
    assert (status, machine.log()) == (0, ["python3 -m venv --clear .venv", PIN, *RUN])
    assert "making .venv with Python 3.12" in messages and "flock" not in messages
    assert machine.set_up() == (0, "")
    assert machine.log() == []


@pytest.mark.slow
@pytest.mark.parametrize("old", ["3, 10", "3, 15"])
def test_where_only_another_python_is_its_pip_fetches_uv_and_uv_a_python(machine: Machine, old: str) -> None:
    machine.python("python3", old)
    status, messages = machine.set_up()
    fetch, make, *rest = machine.log()
    assert (status, fetch.split(" ")[-1], make, rest) == (0, PIN.split(" ")[-1], BY_UV, [PIN, *RUN])
    assert "--target" in fetch and "uv with Python 3.11" in messages
    assert machine.set_up() == (0, "")


def test_where_no_python_is_uv_fetches_one(machine: Machine) -> None:
    machine.uv()
    assert machine.set_up("dev")[0] == 0
    assert machine.log() == [BY_UV, PIN, *DEV]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["curl", "wget"])
@pytest.mark.parametrize("python", [True, False], ids=["python 3.10 without pip", "no python"])
def test_where_no_pip_is_uv_is_downloaded(machine: Machine, name: str, python: bool) -> None:
    machine.downloader(name)
    if python:
        machine.python("python3", "3, 10", pip=False)
    assert machine.set_up()[0] == 0
    log = [line for line in machine.log() if not line.startswith("python3 ")]
    assert re.match(rf"{name} .*https://astral.sh/uv/[0-9.]+/install.sh", log[0])
    assert log[1:] == [BY_UV, PIN, *RUN]


@pytest.mark.parametrize("python", [True, False])
def test_where_nothing_can_be_fetched_one_line_says_what_to_install(machine: Machine, python: bool) -> None:
    if python:
        machine.python("python3", "3, 10", pip=False)
    status, messages = machine.set_up()
    assert status == 2
    last = [line for line in messages.splitlines() if "no flock" not in line]
    assert len(last) == 1 and "Python 3.11 to 3.14 is needed" in last[0] and "ARES_PYTHON" in last[0]
    assert not (machine.clone / ".venv").exists()


@pytest.mark.slow
def test_the_python_that_was_asked_for_or_the_first_of_the_right_version_is_used(machine: Machine) -> None:
    machine.python("python3", "3, 10")
    machine.python("python3.12", "3, 12")
    machine.python("mine", "3, 13")
    machine.python("old", "3, 10")
    assert machine.set_up()[0] == 0
    assert machine.log()[0] == "python3.12 -m venv --clear .venv"
    status, messages = machine.set_up(ARES_PYTHON="old")
    assert (status, messages) == (2, "set-up: ARES_PYTHON=old is no Python 3.11 to 3.14\n")
    assert machine.set_up(ARES_PYTHON="mine")[0] == 0
    assert machine.log()[0] == "mine -m venv --clear .venv"


@pytest.mark.slow
def test_a_python_without_ensurepip_gets_its_environment_by_uv(machine: Machine) -> None:
    machine.python("python3", "3, 11", ensurepip=False)
    status, _ = machine.set_up()  # no apt-get here
    log = machine.log()
    assert status == 0 and "uv venv --quiet --no-project --seed --python python3 .venv" in log


@pytest.mark.slow
@pytest.mark.parametrize("locker", ["flock", "python3", "perl"])
def test_two_set_ups_at_once_make_one_environment(machine: Machine, locker: str) -> None:
    machine.uv()
    if locker == "python3":
        machine.python("python3", "3, 11")
    else:
        link_tools(machine.path, (locker,))
    processes = [machine.start() for _ in range(3)]
    messages = "".join(process.communicate()[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum("venv" in line for line in machine.log()) == 1
    assert "no flock" not in messages


@pytest.mark.slow
def test_a_larger_environment_serves_and_a_smaller_one_does_not(machine: Machine) -> None:
    machine.python("python3", "3, 11")
    app = "uv pip install --quiet --compile-bytecode -c requirements.lock -r pyproject.toml"
    app += " --extra app --extra mcap --extra mongo"
    expected = [["python3 -m venv --clear .venv", PIN, app, RUN[-1]], [PIN, *RUN], [], [PIN, *DEV], [], []]
    for kind, lines in zip(("app", "run", "app", "dev", "run", "app"), expected, strict=True):
        assert machine.set_up(kind)[0] == 0
        assert machine.log() == lines


@pytest.mark.slow
@pytest.mark.parametrize("change", ["requirements.lock", "pyproject.toml", "ARES_PYTHON"])
def test_a_change_installs_again(machine: Machine, change: str) -> None:
    machine.python("python3", "3, 11")
    machine.python("mine", "3, 11")
    machine.set_up()
    machine.log()
    if change == "ARES_PYTHON":
        machine.set_up(ARES_PYTHON="mine")
    else:
        (machine.clone / change).write_text("changed\n")
        machine.set_up()
    assert machine.log()[-2:] == RUN


@pytest.mark.slow
def test_where_uv_cannot_install_pip_is_tried(machine: Machine) -> None:
    machine.python("python3", "3, 11")
    (machine.parts / "uv-fails").touch()
    status, messages = machine.set_up()
    assert status == 0 and "trying pip" in messages
    assert machine.log()[-2:] == [
        "python -m pip install --quiet -r requirements.lock",
        "python -m pip install --quiet --no-deps -e .",
    ]


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: str(path.name))
def test_scripts_need_no_newer_bash_and_no_gnu_tool(path: Path) -> None:
    newer = r"mapfile|readarray|declare -[An]|local -n|\$\{\w+(,,|\^\^|@)|&>>|\|&|readlink -f|sed -i|sha256sum|realpath"
    assert not re.findall(newer, path.read_text())


@pytest.mark.parametrize("version", [(3, 10, 12), (3, 9, 2)])
def test_pip_of_an_older_python_is_answered_in_one_line(version: tuple[int, int, int]) -> None:
    code = f"import sys; sys.version_info = {version}; import build_backend"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "needs Python 3.11" in done.stderr and ".".join(map(str, version)) in done.stderr


def test_make_lists_its_targets() -> None:
    make = shutil.which("make") or pytest.skip("no make")
    listed = subprocess.run(
        [make, "-C", str(SCRIPTS.parent), "--no-print-directory"], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"^  make demo +Run the whole job", listed, flags=re.M)
    assert "\t" not in listed
