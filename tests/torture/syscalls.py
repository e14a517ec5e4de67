"""Lets the N-th file operation of a process fail, or kills the process there, by seccomp user notifications.

The kernel asks this process about every file operation of the child, whatever made it: Python, SQLite, Arrow or
Lance. See seccomp_unotify(2). Operations on memory-mapped files are not seen. Linux on x86-64 and ARM64 only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Fault = Literal["", "EIO", "ENOSPC", "kill", "torn", "shrink", "vanish"]

# Numbers of the calls on x86-64 and on ARM64 (asm/unistd.h); 0 where a machine has no such call.
_CALLS = {
    "write": (1, 64), "pwrite64": (18, 68), "writev": (20, 66), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "rename": (82, 0), "mkdir": (83, 0), "unlink": (87, 0), "link": (86, 0), "open": (2, 0),
    "openat": (257, 56), "mkdirat": (258, 34), "unlinkat": (263, 35), "renameat": (264, 38), "linkat": (265, 37),
    "renameat2": (316, 276), "copy_file_range": (326, 285), "sendfile": (40, 71), "fallocate": (285, 47),
}  # fmt: skip
_READS = {"read": (0, 63), "pread64": (17, 67), "readv": (19, 65)}
_BY_FD = {"write", "pwrite64", "writev", "fsync", "fdatasync", "ftruncate", "fallocate", *_READS}
_NO_SPACE = {"write", "pwrite64", "writev", "ftruncate", "fallocate", "open", "openat", "mkdir", "mkdirat"}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0, "aarch64": 1}
_PR_SET_NO_NEW_PRIVS, _FILTER, _NEW_LISTENER = 38, 1, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_WRITABLE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def can_inject() -> bool:
    """Whether this machine lets a process supervise the calls of its children."""
    if platform.system() != "Linux" or platform.machine() not in _SECCOMP:
        return False
    pid = os.fork()
    if pid == 0:
        ours, theirs = socket.socketpair()
        try:
            _install_filter(theirs, ())
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            ours.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@dataclass(slots=True)
class Injector:
    """Supervises the file operations of one child below some folders.

    Args:
        folders: Only operations on files below these count.
        at: Number of the operation that fails, from 1; 0 for none.
        fault: What happens there. "ENOSPC" fails every later operation that needs space too, as a full disk does;
            "torn" writes half of the bytes and kills the process. "shrink" and "vanish" cut or remove the file, and
            let the operation pass.
        reads: Whether read operations count instead of those that change something.

    Attributes:
        count: Operations seen so far.
        operations: Name and file of each.
        hit: Name and file of the operation that failed, or "".
    """

    folders: tuple[str, ...]
    at: int = 0
    fault: Fault = ""
    reads: bool = False
    count: int = 0
    operations: list[str] = field(default_factory=list)
    hit: str = ""
    _sockets: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)
    _thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Called in the child: from now on, its operations are supervised."""
        self._sockets[0].close()
        table = _READS if self.reads else _CALLS
        _install_filter(self._sockets[1], tuple(table))

    def run(self, run: Callable[..., Any]) -> Any:
        """Call `run(prepare=...)`, which must fork the child, while this process answers for its operations."""
        ready = threading.Event()
        # Started before the fork, but it waits in the kernel without any lock of Python.
        self._thread = threading.Thread(target=self._supervise, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        try:
            return run(prepare=self.prepare)
        finally:
            self._sockets[1].close()
            self._thread.join(5)
            self._sockets[0].close()

    def _supervise(self, ready: threading.Event) -> None:
        ready.set()
        try:
            _, descriptors, _, _ = socket.recv_fds(self._sockets[0], 1, 1)
        except OSError:
            return
        if not descriptors:
            return
        listener = descriptors[0]
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            while True:
                events = poll.poll(1_000)
                if events and events[0][1] & select.POLLIN:
                    self._answer(listener)
                elif events:  # every supervised process has ended
                    return
        finally:
            os.close(listener)

    def _answer(self, listener: int) -> None:
        request = bytearray(80)
        with suppress(OSError):  # the process was killed in the meantime
            fcntl.ioctl(listener, _RECEIVE, request, True)
            identity, pid, _ = struct.unpack_from("QII", request)
            number = struct.unpack_from("i", request, 16)[0]
            arguments = struct.unpack_from("6Q", request, 32)
            code = self._decide(pid, _NAMES[number], arguments)
            flags = 0 if code else _CONTINUE
            fcntl.ioctl(listener, _SEND, bytearray(struct.pack("QqiI", identity, 0, -code, flags)), True)

    def _decide(self, pid: int, name: str, arguments: tuple[int, ...]) -> int:
        """The error number that the operation fails with; 0 lets it pass."""
        path = _changed_path(pid, name, arguments)
        if not path.startswith(self.folders):
            return 0
        self.count += 1
        self.operations.append(f"{name} {path}")
        is_hit = self.count == self.at
        is_full = self.fault == "ENOSPC" and 0 < self.at <= self.count and _needs_space(name, path)
        if is_hit or (is_full and not self.hit):
            self.hit = self.operations[-1]
        if is_hit and self.fault == "torn" and name in ("write", "pwrite64"):
            _write_half(pid, name, arguments)
        if is_hit and self.fault in ("shrink", "vanish"):
            _change_file(Path(path), self.fault)
        if is_hit and self.fault in ("kill", "torn"):
            os.kill(pid, signal.SIGKILL)
        if self.fault == "ENOSPC":
            return errno.ENOSPC if is_full else 0
        return errno.EIO if is_hit and self.fault == "EIO" else 0


def _needs_space(name: str, path: str) -> bool:
    """Whether a full disk fails a call: to open a file that is there takes no room."""
    return name in _NO_SPACE and not (name in ("open", "openat") and Path(path).exists())


def _number(name: str) -> int:
    pair = (_CALLS | _READS)[name]
    return pair[_ARCHITECTURE.get(platform.machine(), 0)]


_NAMES = {_number(name): name for name in (_CALLS | _READS)}


def _changed_path(pid: int, name: str, arguments: tuple[int, ...]) -> str:
    """The file that a call changes (or reads), or "" for one that changes nothing."""
    if name in _BY_FD:
        return _path_of(pid, arguments[0])
    if name == "copy_file_range":
        return _path_of(pid, arguments[2])
    if name == "sendfile":
        return _path_of(pid, arguments[0])
    if name == "open":
        return _text_at(pid, arguments[0]) if arguments[1] & _WRITABLE else ""
    if name == "openat":
        return _text_at(pid, arguments[1]) if arguments[2] & _WRITABLE else ""
    return _text_at(pid, arguments[1] if name.endswith(("at", "at2")) else arguments[0])


def _path_of(pid: int, descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return ""


def _text_at(pid: int, address: int) -> str:
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(4096 - address % 4096)
            if b"\0" not in data:
                data += memory.read(4096)
            return data.partition(b"\0")[0].decode(errors="replace")
    except (OSError, ValueError, OverflowError):
        return ""


def _change_file(path: Path, fault: Fault) -> None:
    """Cut a file in the middle, or remove it."""
    with suppress(OSError):  # it is gone already
        if fault == "vanish":
            path.unlink()
        else:
            os.truncate(path, path.stat().st_size // 2)


def _write_half(pid: int, name: str, arguments: tuple[int, ...]) -> None:
    """Write the first half of what the process is about to write, to where it would have."""
    descriptor, address, size = arguments[:3]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        data = memory.read(size // 2)
    if name == "pwrite64":
        position = arguments[3]
    else:
        lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
        position = next(int(line.split()[1]) for line in lines if line.startswith("pos:"))
    with Path(f"/proc/{pid}/fd/{descriptor}").open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), data, position)


def _install_filter(channel: socket.socket, names: tuple[str, ...]) -> None:
    """Ask the kernel to notify the process at the other end of the channel of these calls."""
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = [_number(name) for name in names if _number(name) or name == "read"]
    program = struct.pack("HBBI", 0x20, 0, 0, 0)  # load the number of the call
    for index, number in enumerate(numbers):
        program += struct.pack("HBBI", 0x15, len(numbers) - index, 0, number)
    program += struct.pack("HBBI", 6, 0, 0, 0x7FFF0000) + struct.pack("HBBI", 6, 0, 0, 0x7FC00000)
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(_SECCOMP[platform.machine()], _FILTER, _NEW_LISTENER, fprog)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp refuses user notifications")
    socket.send_fds(channel, [b"x"], [listener])
    os.close(listener)
