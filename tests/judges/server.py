"""A model server in a separate process that speaks HTTP in vLLM's dialect: its models are judges and captioners.

python -m tests.judges.server CONFIG LOG, where CONFIG is what `JudgeServer` writes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.judges.answers import OBSERVE, REQUESTS, Request, answer_request
from tests.judges.marked_frames import read_images
from tests.judges.parameters import JudgeParameters
from tests.judges.world import WorldCaption, WorldEpisode

_ROOT = Path(__file__).resolve().parents[2]
# As published for the models whose names the judges have: an image of Gemma 3 has so many tokens, with its marks.
IMAGE_TOKENS = 258
_CHARACTERS_PER_TOKEN = 4
CAPTIONER, JUDGE_PREFIX, KIN_PREFIX = (
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "google/gemma-3-12b-it-",
    "Qwen/Qwen2.5-VL-32B-Instruct-",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCall:
    """One call that the server has answered.

    Attributes:
        model: Name of the model.
        kind: First line of the request, or its beginning where it is of no known kind.
        episode: Number of the episode that it was about, or None.
        tokens_in: Tokens of the prompt that it reported.
        tokens_out: Tokens of the reply that it reported.
        is_cut: Whether the reply was cut.
    """

    model: str
    kind: str
    episode: int | None
    tokens_in: int
    tokens_out: int
    is_cut: bool


class JudgeServer:
    """Starts the server; a context that ends it.

    Args:
        folder: Where its configuration and its log are; it exists.
        episodes: Episodes that its models know.
        judges: Judges by name.
        keep: File that gets one request of each kind with its reply, or None.
    """

    def __init__(
        self,
        folder: Path,
        episodes: Sequence[WorldEpisode],
        judges: Mapping[str, JudgeParameters],
        keep: Path | None = None,
    ) -> None:
        self._log, self._judges = folder / "calls.jsonl", judges
        config = folder / "server.json"
        document = {
            "episodes": [asdict(episode) for episode in episodes],
            "judges": {self._model(name): judge.to_json() for name, judge in judges.items()},
            "keep": str(keep or ""),
        }
        config.write_text(json.dumps(document))
        environ = {**os.environ, "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.judges.server", str(config), str(self._log)],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=_ROOT, env=environ,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"

    def __enter__(self) -> JudgeServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def judge_spec(self, name: str) -> str:
        """The `--model` of a judge."""
        return f"openai:{self._model(name)}@{self.url}"

    def _model(self, name: str) -> str:
        return f"{KIN_PREFIX if self._judges[name].is_kin else JUDGE_PREFIX}{name}"

    @property
    def captioner_spec(self) -> str:
        """The `--model` of the captioner."""
        return f"openai:{CAPTIONER}@{self.url}"

    def calls(self, name: str) -> list[ServedCall]:
        """All calls of a judge so far."""
        lines = self._log.read_text().rpartition("\n")[0].splitlines() if self._log.exists() else []
        read = [ServedCall(**json.loads(line)) for line in lines]
        return [call for call in read if call.model == self._model(name)]


class _Models:
    """The models, which answer one request after another."""

    def __init__(self, config: Mapping[str, Any], log: Path) -> None:
        captions = {entry["number"]: WorldCaption(**entry["caption"]) for entry in config["episodes"]}
        self._episodes = {
            entry["number"]: WorldEpisode(**{**entry, "caption": captions[entry["number"]]})
            for entry in config["episodes"]
        }
        self._judges = {name: JudgeParameters(**values) for name, values in config["judges"].items()}
        self._attempts, self._observed = Counter[str](), Counter[str]()
        self._log = log.open("a", buffering=1)
        self._keep, self._kept = config["keep"], dict[str, Any]()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                method, body = await _read_request(reader)
                await self._answer(method, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _answer(self, method: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if method == "GET":
            names = [CAPTIONER, *self._judges]
            served = [{"id": name, "object": "model", "owned_by": "vllm", "root": name} for name in names]
            _write(writer, {"object": "list", "data": served})
        else:
            document = json.loads(body)
            judge = self._judges.get(document["model"], JudgeParameters())
            dice = self._attempt_dice(body)
            if judge.slow_seconds and dice.random() < 0.1:
                await asyncio.sleep(judge.slow_seconds)
            _write(writer, self._complete(document, judge, is_cut=dice.random() < judge.cut))
        await writer.drain()

    def _attempt_dice(self, body: bytes) -> random.Random:
        name = hashlib.blake2b(body, digest_size=8).hexdigest()
        self._attempts[name] += 1
        return random.Random(f"{name} {self._attempts[name]}")

    def _complete(self, document: Mapping[str, Any], judge: JudgeParameters, is_cut: bool) -> dict[str, Any]:
        request, images = self._read(document)
        self._observed[document["model"]] += request.kind == OBSERVE and request.episode is not None
        text = answer_request(judge.after(self._observed[document["model"]]), request)
        self._keep_one(request, document, images, text)
        text = text[: len(text) // 2] if is_cut else text
        tokens = (
            images * IMAGE_TOKENS + len(request.text) // _CHARACTERS_PER_TOKEN,
            len(text) // _CHARACTERS_PER_TOKEN + 1,
        )
        call = ServedCall(
            model=document["model"],
            kind=request.kind or request.text[:60],
            episode=request.episode.number if request.episode else None,
            tokens_in=tokens[0],
            tokens_out=tokens[1],
            is_cut=is_cut,
        )
        self._log.write(json.dumps(asdict(call)) + "\n")
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "length" if is_cut else "stop"}
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        return {"model": document["model"], "choices": [choice], "usage": usage}

    def _read(self, document: Mapping[str, Any]) -> tuple[Request, int]:
        """A request, and the number of its images."""
        texts, urls = [], []
        for message in document["messages"]:
            parts = message["content"]
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            texts += [part["text"] for part in parts if part["type"] == "text"]
            urls += [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        number, frames = read_images(urls)
        schema = document.get("response_format", {}).get("json_schema", {}).get("schema", {})
        episode = None if number is None else self._episodes.get(number)
        return Request(text="\n".join(texts), schema=schema, episode=episode, frames=frames), len(urls)

    def _keep_one(self, request: Request, document: Mapping[str, Any], images: int, reply: str) -> None:
        """Keep the first request of each kind about an episode, without the pixels of its images."""
        is_about_frames = images > 0
        if not self._keep or request.kind in self._kept or (is_about_frames and request.episode is None):
            return
        if request.kind in REQUESTS:
            self._kept[request.kind] = {
                "request": _without_pixels(document),
                "images": images,
                "reply": reply,
            }
            Path(self._keep).write_text(json.dumps(self._kept, indent=1, ensure_ascii=False))


def _without_pixels(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_pixels(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_pixels(part) for part in value]
    return f"{value[:23]}..." if isinstance(value, str) and value.startswith("data:image") else value


def _write(writer: asyncio.StreamWriter, document: Mapping[str, Any]) -> None:
    body = json.dumps(document).encode()
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Method and body of a request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return head.partition(" ")[0], body


async def _serve(config: Mapping[str, Any], log: Path) -> None:
    models = _Models(config, log)
    server = await asyncio.start_server(models.handle, "127.0.0.1", 0, backlog=1024, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])))
