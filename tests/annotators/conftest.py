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
from typing import Any, Literal

import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Camera, Episode
from ares.media import probe_video
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import (
    Annotator,
    Frames,
    Options,
    Work,
    make_annotation_subject,
    make_episode_subject,
)
from ares_annotators.runner.fault_isolation import select_no_frames
from tests.annotators.caption_replies import typed_caption
from tests.annotators.samples import make_annotation, make_camera, make_episode
from tests.workspaces import copy_workspace

Behaviour = Callable[[BaseHTTPRequestHandler], None]
SECRET = "sk-very-secret-0123456789"
BY_HAND = Producer(annotator="caption", version="by hand")


class ModelServer:
    """An OpenAI-compatible server that answers by a script, request after request; the last answer repeats."""

    def __init__(self) -> None:
        self.models: tuple[str, ...] = ()
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

            def do_GET(self) -> None:
                document = {"data": [{"id": name} for name in owner.models]}
                is_there = owner.models and self.path == "/v1/models"
                owner.send(self, 200 if is_there else 404, json.dumps(document).encode())

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

    def says(self, text: str | None, **more: Any) -> None:
        self.answers(lambda request: text, **more)

    def answers(
        self,
        reply: Callable[[dict[str, Any]], str | None],
        *,
        finish: str = "stop",
        refusal: str | None = None,
        usage: bool = True,
    ) -> None:
        def choices(request: dict[str, Any]) -> list[dict[str, Any]]:
            message = {"role": "assistant", "content": reply(request), "refusal": refusal}
            return [{"index": 0, "message": message, "finish_reason": finish}]

        self.replies(choices, usage)

    def captions(self, sentence: str, **slots: str | list[str]) -> None:
        """Replies with a typed caption of a sentence."""
        self.says(typed_caption(sentence, **slots))

    def replies(self, choices: Callable[[dict[str, Any]], list[dict[str, Any]]], usage: bool = True) -> None:
        """Answers with the choices made for each request, also of several at the same time."""
        self._script.append(
            lambda handler: self.send(
                handler, 200, self.completion(choices(self._thread_local.request), usage)
            )
        )

    def forget(self) -> None:
        """Drop the requests and the script so far."""
        self.requests.clear()
        self._script.clear()

    def fails(self, status: int, body: str = '{"error": {"message": "no"}}', **headers: str) -> None:
        self._script.append(lambda handler: self.send(handler, status, body.encode(), headers))

    def sends(self, body: bytes, **headers: str) -> None:
        self._script.append(lambda handler: self.send(handler, 200, body, headers))

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
        for name, value in {"Content_Type": "application/json", **(headers or {})}.items():
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
    monkeypatch.setattr("ares_annotators.models.server.connection._FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("ares_annotators.models.server.connection._LONGEST_WAIT_SECONDS", 0.02)


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


@pytest.fixture(scope="module")
def module_ws(video_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The videos of the sample, for all tests of a file."""
    folder = copy_workspace(video_folder, tmp_path_factory.mktemp("module") / "ws")
    with open_workspace(str(folder), Settings()) as opened:
        yield opened


@pytest.fixture(scope="module")
def remembered_vectors() -> Iterator[None]:
    """CLIP computes the vectors of the same frames or texts once for all tests of a file."""
    from ares_annotators.models.clip import ClipEncoder

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

    def camera(name: str, view: Literal["front", "wrist"]) -> Camera:
        path = demo_samples / "video" / "videos" / f"{name}_{view}.mp4"
        frames = probe_video(str(path)).num_frames if path.exists() else 40
        return make_camera(view, frames / 20, 20.0, str(path))

    return {
        name: make_episode(name, [camera(name, "front"), camera(name, "wrist")], success=True)
        for name in ("drawer-close_000", "basketball_009", "gone")
    }


@pytest.fixture(scope="session")
def work_for() -> Callable[..., Work]:
    """Makes a Work with the decoded frames that annotators select, as a run does."""

    def make(episode: Episode, annotators: Sequence[Annotator], caption: Annotation | None = None) -> Work:
        subject = (
            make_annotation_subject(episode, caption)
            if caption is not None
            else make_episode_subject(episode)
        )
        frames = Frames(
            episode,
            [getattr(annotator, "select_frames", select_no_frames)(subject) for annotator in annotators],
        )
        frames.decode()
        return Work(subject=subject, frames=frames, trajectory=None)

    return make


@pytest.fixture(scope="session")
def caption_of() -> Callable[..., Annotation]:
    """Makes a caption that no model wrote; with slots one that is typed."""

    def make(
        episode: Episode, text: str, maker_id: str = "by-hand", slots: dict[str, Any] | None = None
    ) -> Annotation:
        value = {"text": text, "caption": text, **({"slots": slots} if slots else {})}
        return make_annotation(BY_HAND, episode, value, maker_id=maker_id)

    return make
