"""Fixtures for annotators: a scripted model server on loopback, real episodes, works with real frames."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from annotators.base import (
    Annotator,
    Frames,
    Options,
    Subject,
    Work,
    make_annotation_subject,
    make_episode_subject,
)
from annotators.runner.fault_isolation import select_no_frames
from ares.annotation import Annotation
from ares.episode import Camera, Episode, MediaRef
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.annotators.caption_replies import typed_caption

Behaviour = Callable[[BaseHTTPRequestHandler], None]
SECRET = "sk-very-secret-0123456789"


class ModelServer:
    """An OpenAI-compatible server that answers by a script, request after request; the last answer repeats."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._script: list[Behaviour] = []
        self._lock = threading.Lock()
        # Requests that come at the same time have a thread each.
        self._thread_local = threading.local()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner.serve(self)

            def end_headers(self) -> None:
                # Clients that tests leave behind must hold no connection: a warning about it would fail a later test.
                self.send_header("Connection", "close")
                super().end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # Connections that wait: the questions about a caption and its controls come at once.
            request_queue_size = 1_000

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self._thread_local.request = json.loads(body)
        with self._lock:
            self.requests.append(self._thread_local.request)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            answer = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        answer(handler)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def prompts(self) -> list[str]:
        """Text of every user message received."""
        return [request["messages"][-1]["content"][-1]["text"] for request in self.requests]

    # The script: each call adds the answer to one more request.

    def says(
        self, text: str | None, *, finish: str = "stop", refusal: str | None = None, usage: bool = True
    ) -> None:
        self.answers(lambda request: text, finish=finish, refusal=refusal, usage=usage)

    def answers(
        self,
        reply: Callable[[dict[str, Any]], str | None],
        *,
        finish: str = "stop",
        refusal: str | None = None,
        usage: bool = True,
    ) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            message = {"role": "assistant", "content": reply(self.requests[-1]), "refusal": refusal}
            self.send(
                handler,
                200,
                self.completion([{"index": 0, "message": message, "finish_reason": finish}], usage),
            )

        self._script.append(answer)

    def captions(self, sentence: str, **slots: str | list[str]) -> None:
        """Replies with a typed caption of a sentence."""
        self.says(typed_caption(sentence, **slots))

    def sends_choices(self, choices: list[dict[str, Any]]) -> None:
        self._script.append(lambda handler: self.send(handler, 200, self.completion(choices, True)))

    def replies(self, choices: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        """Answers with the choices made for each request, also of several at the same time."""
        self._script.append(
            lambda handler: self.send(
                handler, 200, self.completion(choices(self._thread_local.request), True)
            )
        )

    def fails(self, status: int, body: str = '{"error": {"message": "no"}}', **headers: str) -> None:
        self._script.append(lambda handler: self.send(handler, status, body.encode(), headers))

    def sends(self, body: bytes, content_type: str = "application/json") -> None:
        self._script.append(lambda handler: self.send(handler, 200, body, {"Content-Type": content_type}))

    def stalls(self, seconds: float) -> None:
        self._script.append(lambda handler: time.sleep(seconds))

    def breaks_off(self) -> None:
        """Promises a long body and closes the connection in the middle of it."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
            handler.wfile.write(b'{"id": "x", "choices": [')
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(2)

        self._script.append(answer)

    @staticmethod
    def completion(choices: list[dict[str, Any]], usage: bool) -> bytes:
        document: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": choices,
        }
        if usage:
            document["usage"] = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
        return json.dumps(document).encode()

    @staticmethod
    def send(
        handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture()
def model_server() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


@pytest.fixture()
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own waits between tries, shortened; what a server asks for by Retry-After stays."""
    monkeypatch.setattr("annotators.models.server.connection._FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("annotators.models.server.connection._LONGEST_WAIT_SECONDS", 0.02)


@pytest.fixture()
def settings(reference_models: Path) -> Settings:
    """The reference models for everything, and a key that must never be seen."""
    return Settings(
        embed_model=f"local-dir:{reference_models / 'reference-clip'}",
        caption_model=f"hf:{reference_models / 'reference-captioner'}",
        judge_model=f"clip:local-dir:{reference_models / 'reference-clip'}",
        openai_api_key=SECRET,
    )


@pytest.fixture()
def options(settings: Settings) -> Options:
    return Options(settings=settings, device="cpu")


@pytest.fixture()
def ws(tmp_path: Path, settings: Settings) -> Iterator[Workspace]:
    """An empty workspace."""
    workspace = open_workspace(str(tmp_path / "ws"), settings)
    yield workspace
    workspace.close()


@pytest.fixture(scope="module")
def remembered_vectors() -> Iterator[None]:
    """CLIP computes the vectors of the same frames or texts once for all tests of a file."""
    from annotators.models.clip import ClipEncoder

    with pytest.MonkeyPatch.context() as patched:
        for method in ("encode_images", "encode_texts"):
            patched.setattr(ClipEncoder, method, _encode_once(getattr(ClipEncoder, method)))
        yield


def _encode_once(encode: Callable[..., Any]) -> Callable[..., Any]:
    vectors: dict[Any, Any] = {}

    def remember(encoder: Any, items: Sequence[Any]) -> Any:
        key = (encoder.name, sha256(pickle.dumps(list(items))).digest())
        if key not in vectors:
            vectors[key] = encode(encoder, items)
        return vectors[key].copy()

    return remember


@pytest.fixture(scope="session")
def episodes(demo_samples: Path) -> dict[str, Episode]:
    """Two videos of the demo sample as episodes, and one whose file does not exist; made without an ingester."""
    episodes_by_name: dict[str, Episode] = {}
    for name in ("drawer-close_000", "basketball_009", "gone"):
        cameras = tuple(
            _camera(demo_samples / "video" / "videos" / f"{name}_{view}.mp4", view)
            for view in ("front", "wrist")
        )
        episodes_by_name[name] = Episode(
            episode_id=f"{name:_<16}"[:16],
            format="video",
            dataset="demo",
            version="",
            split="",
            key=name,
            source="",
            content_hash=name,
            instruction="do what is written nowhere else",
            instructions=("do what is written nowhere else",),
            robot="sawyer",
            num_steps=cameras[0].media.num_frames,
            rate_hz=20.0,
            rate_source="source",
            cameras=cameras,
            success=True,
        )
    return episodes_by_name


def _camera(path: Path, view: Any) -> Camera:
    frames = 40
    if path.exists():
        from ares.media import probe_video

        frames = probe_video(str(path)).num_frames
    media = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=frames / 20,
        num_frames=frames,
        rate_hz=20.0,
    )
    return Camera(name=view, role=view, width=192, height=192, codec="h264", media=media)


@pytest.fixture(scope="session")
def work_for() -> Callable[..., Work]:
    """Makes a Work with the decoded frames that annotators select, as a run does."""

    def make(episode: Episode, annotators: Sequence[Annotator], caption: Annotation | None = None) -> Work:
        subject = subject_of(episode, caption)
        frames = Frames(
            episode,
            [getattr(annotator, "select_frames", select_no_frames)(subject) for annotator in annotators],
        )
        frames.decode()
        return Work(subject=subject, frames=frames, trajectory=None)

    return make


def subject_of(episode: Episode, caption: Annotation | None) -> Subject:
    """A caption as a subject, or the episode itself."""
    if caption is None:
        return make_episode_subject(episode)
    return make_annotation_subject(episode, caption)


@pytest.fixture(scope="session")
def caption_of() -> Callable[..., Annotation]:
    """Makes a caption that no model wrote; with slots one that is typed."""

    def make(
        episode: Episode, text: str, maker_id: str = "by-hand", slots: dict[str, Any] | None = None
    ) -> Annotation:
        return Annotation(
            episode_id=episode.episode_id,
            name="caption",
            value={"text": text, "caption": text, **({"slots": slots} if slots else {})},
            maker_id=maker_id,
            subject=episode.episode_id,
            start_seconds=0.0,
            stop_seconds=episode.duration_seconds,
            created="2026-01-01T00:00:00+00:00",
        )

    return make
