"""A model server in a separate process that misbehaves by a seeded script and logs every call that it read.

python scripted_server.py '{"seed": 1, "kinds": {"fine": 9, "500": 1}, "latency": 0.05}' LOG
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAPTION, CHOICE = "open the drawer", '{"option": 1, "frames": [1], "confidence": 90}'
_NO_SLOTS = dict.fromkeys(("from", "to", "hand", "manner", "count"), "")
TYPED_CAPTION = json.dumps(
    {
        "action": "open",
        "other_action": "",
        "object": "drawer",
        "attributes": [],
        **_NO_SLOTS,
        "outcome": "completed",
        "sentence": CAPTION,
    }
)
FILLED_SLOTS = json.dumps(
    {
        "action": "open",
        "action_words": "open",
        "object": "drawer",
        "attributes": [],
        **_NO_SLOTS,
        "outcome": "completed",
    }
)
_HIDDEN = {"value": "not visible", "frames": [], "confidence": 0}
OBSERVATION = json.dumps(
    {
        "action": {"value": "open", "frames": [1, 3], "confidence": 90, "other_action": ""},
        "object": {"value": "drawer", "frames": [1], "confidence": 90},
        "attributes": {"value": [], "frames": [], "confidence": 0},
        **dict.fromkeys(("from", "to", "hand", "manner", "count"), _HIDDEN),
        "outcome": {"value": "completed", "frames": [3], "confidence": 90},
    }
)
# Replies to questions, by words of these.
REPLIES = {
    b"Caption one segment of a robot recording.": TYPED_CAPTION,
    b"Fill the slots of one sentence.": FILLED_SLOTS,
    b"Observe one segment of a robot recording.": OBSERVATION,
    b"List what must be visible": '{"criteria": ["the drawer is open"]}',
    b"Answer yes or no": '{"answer": "yes"}',
    b"Compare the start": '{"observation": "a drawer", "conditions": ["met"], "frames": [1], "outcome": "success"}',
}
# Replies about each of the entries that a request holds, by words of it.
SHARED_REPLIES: dict[bytes, Any] = {
    b"Compare the two values of each pair.": "same",
    b"Which of these words say more than the slots beside them?": [],
    b"Choose what the frames show for each slot.": json.loads(CHOICE),
    b"Fill the slots of several sentences.": json.loads(FILLED_SLOTS),
}
# Answers that are none, with the status that they have.
STATUSES = {
    "429": 429,
    "429 with Retry-After": 429,
    "408": 408,
    "500": 500,
    "503": 503,
    "400": 400,
    "404": 404,
}
# Replies of another form than the one asked for: paid all the same.
TEXTS: dict[str, str | None] = {
    "empty": "",
    "no text": None,
    "prose": "Sure! Here is the JSON that you asked for.",
    "other schema": '{"answer": 42}',
    "wrong option": CHOICE.replace('"option": 1', '"option": "PERHAPS"'),
    "key twice": CHOICE.replace('"frames"', '"option": 2, "frames"'),
    "NaN": CHOICE.replace("[1]", "[NaN]"),
    "fenced": f"```json\n{CHOICE}\n```",
    "half a character": "open the \ud800 drawer",
    "long lists": CHOICE.replace("[1]", "[" + ", ".join(["1"] * 5_000) + "]"),
}
# Lies about typed fields: replies of the form asked for but for one thing, and one in which a fact is wrong.
FIELDS = b"Answer questions about one robot recording."
LIES = (
    "misspelt",
    "field missing",
    "other language",
    "cut in the middle",
    "wrong",
    "in a fence",
    "extra fields",
    "of another episode",
)
# Tokens of an image of at most 256 pixels at a server of Qwen, and characters that are one token of words, or of JSON.
_IMAGE_TOKENS, _CHARACTERS_PER_TOKEN, _JSON_PER_TOKEN = 66, 3.8, (2.7, 3.3)
FINISHES = {"cut at the limit": "length", "content filter": "content_filter"}
USAGES: dict[str, Any] = {"no usage": None, "negative usage": -5, "usage of words": "many"}
BROKEN = ("dropped", "dropped in the middle", "slow", "huge")
DOCUMENTS = {
    "garbage": b"<html>gateway</html>",
    "truncated JSON": b'{"id": "x", "choices": [{"message": {"con',
    "no choices": b'{"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 0}}',
}
HUGE_BYTES, _SLOW_SECONDS = 9_000_000, 3.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCall:
    """One call that the server read.

    Attributes:
        body: Hash of the request.
        questions: What it asks: each pair of values, or the words of each caption, whatever else stands beside it;
            else the hash.
        kind: What the server did.
        tokens_in: Tokens of the prompt that it reported, 0 where it reported none.
        tokens_out: Tokens of the reply that it reported.
        started_at: Unix time when it had read the request.
        ended_at: Unix time when the last byte had been handed to the system, or None where the client was gone.
        in_flight: Calls at that time.
    """

    body: str
    questions: list[str]
    kind: str
    tokens_in: int
    tokens_out: int
    started_at: float
    ended_at: float | None
    in_flight: int


class ScriptedServer:
    """Starts the server; a context that ends it.

    Args:
        folder: Where its log is.
        kinds: What it does, with the weight of each; the first call of all goes well.
        seed: Chooses among them, by request and attempt.
        latency: Seconds a call.
        slots: Calls that it works on at a time.
        refuse: It answers 429 where more calls than slots are in flight.
    """

    def __init__(
        self,
        folder: Path,
        kinds: Mapping[str, float],
        seed: int = 0,
        latency: float = 0.0,
        slots: int = 1_000,
        refuse: bool = False,
    ) -> None:
        script = {"kinds": dict(kinds), "seed": seed, "latency": latency, "slots": slots, "refuse": refuse}
        self._kinds, self._log = kinds, folder / "calls.jsonl"
        command = [sys.executable, __file__, json.dumps(script), str(self._log)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def calls(self) -> list[LoggedCall]:
        """All calls so far, those in flight excepted. Waits for slow ones, which their client has left."""
        if "slow" in self._kinds:
            time.sleep(_SLOW_SECONDS)
        # The line that the server is writing is not a whole one yet.
        whole_lines = self._log.read_text().rpartition("\n")[0].splitlines() if self._log.exists() else []
        return [LoggedCall(**json.loads(line)) for line in whole_lines]

    def wait_for(self, number: int, client: subprocess.Popen[str]) -> None:
        """Wait until so many calls have ended, or their client: a killed run may have left it little to ask."""
        deadline = time.monotonic() + 300
        while len(self.calls()) < number and client.poll() is None:
            assert time.monotonic() < deadline, f"{len(self.calls())} of {number} calls"
            time.sleep(0.002)


class _Script:
    def __init__(self, script: Mapping[str, Any], log: Path) -> None:
        self._kinds, self._seed = script["kinds"], script["seed"]
        self._latency, self._slots = script["latency"], script["slots"]
        self._refuse = script["refuse"]
        self._free = asyncio.Semaphore(self._slots)
        self._attempts: Counter[str] = Counter()
        self._in_flight = 0
        self._log = log.open("a", buffering=1)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                body = await _read_request(reader)
                if body is None:
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    await writer.drain()
                elif not await self._answer(body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer and log one call. Returns whether the connection stays open."""
        self._in_flight += 1
        started_at, in_flight = time.time(), self._in_flight
        name = hashlib.blake2b(body, digest_size=8).hexdigest()
        rng = random.Random(f"{self._seed} {name} {self._attempts[name]}")
        self._attempts[name] += 1
        kind = rng.choices(list(self._kinds), list(self._kinds.values()))[0]
        if len(self._attempts) == 1:  # the test call before a run
            kind = "fine"
        if self._refuse and in_flight > self._slots:
            kind = "429"
        elif kind not in STATUSES:
            async with self._free:
                await asyncio.sleep(self._latency)
        tokens = (rng.randrange(900, 1100), rng.randrange(1, 60))
        entries = _entries_of(body)
        text = next((reply for words, reply in REPLIES.items() if words in body), CAPTION)
        shared = [reply for words, reply in SHARED_REPLIES.items() if words in body]
        if shared:
            text = json.dumps({str(number): shared[0] for number in range(1, len(entries) + 1)})
        if FIELDS in body:
            text, tokens = _answer_fields(body, kind, random.Random(self._seed).uniform(*_JSON_PER_TOKEN))
        ended_at = None
        try:
            reported, stays_open = await _send(kind, tokens, text, writer)
            ended_at = time.time()
        except ConnectionError:
            reported, stays_open = (0, 0), False
        self._in_flight -= 1
        call = LoggedCall(
            body=name,
            questions=entries or [name],
            kind=kind,
            tokens_in=reported[0],
            tokens_out=reported[1],
            started_at=started_at,
            ended_at=ended_at,
            in_flight=in_flight,
        )
        fields = {field: getattr(call, field) for field in call.__slots__}
        self._log.write(json.dumps(fields) + "\n")
        return stays_open


def _answer_fields(body: bytes, kind: str, characters: float) -> tuple[str, tuple[int, int]]:
    """Answers to all fields of a request, with one lie of this kind, and the tokens of both, of so many characters."""
    request = json.loads(body)
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    answers = {name: {**_true_answer(form), "confidence": 90} for name, form in properties.items()}
    first = next(iter(answers))
    if len(answers) > 1:  # a field that is asked alone gets its answer
        if kind == "misspelt":
            answers[first]["value"] = "blakc"
        elif kind == "field missing":
            del answers[first]
        elif kind == "other language":
            answers |= {"background": {"value": "白い壁と棚", "frames": [1], "confidence": 90}}
        elif kind == "extra fields":
            answers["mood"] = answers[first]
        elif kind == "of another episode":  # of a longer one
            answers = {name: {**answer, "frames": [90]} for name, answer in answers.items()}
    if kind == "wrong" and "enum" in properties[first]["properties"]["value"]:
        answers[first]["value"] = properties[first]["properties"]["value"]["enum"][-2]
    text = json.dumps(answers, ensure_ascii=False)
    if kind == "cut in the middle" and len(answers) > 3:
        text = text[: round(0.8 * len(text))]
    if kind == "in a fence":
        text = f"Here it is:\n```json\n{text}\n```"
    parts = request["messages"][-1]["content"]
    words = sum(len(part.get("text", "")) for part in parts)
    images = sum(part["type"] == "image_url" for part in parts)
    tokens_in = round(words / _CHARACTERS_PER_TOKEN) + _IMAGE_TOKENS * images
    return text, (tokens_in, round(len(text) / characters))


def _true_answer(form: dict[str, Any]) -> dict[str, Any]:
    value = form["properties"]["value"]
    if "enum" in value:
        return {"value": value["enum"][0], "frames": [1]}
    value = value["anyOf"][0]
    kinds = {"boolean": True, "integer": 2, "number": 0.5, "string": "a white wall", "array": ["Red cup"]}
    return {"value": kinds[value["type"]], "frames": [1, 2]}


def _entries_of(body: bytes) -> list[str]:
    """The entries of a list that a request asks about: pairs of values, slots, words of captions, or sentences."""
    for message in json.loads(body)["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        for line in "\n".join(part.get("text", "") for part in parts).splitlines():
            if line.startswith('{"1": '):
                return [json.dumps(entry) for entry in json.loads(line).values()]
    return []


async def _send(
    kind: str, tokens: tuple[int, int], text: str, writer: asyncio.StreamWriter
) -> tuple[tuple[int, int], bool]:
    """Send what the script says. Returns the tokens that were reported, and whether the connection stays open."""
    if kind in STATUSES:
        more = "Retry-After: 0.1\r\n" if kind == "429 with Retry-After" else ""
        _write(writer, b'{"error": {"message": "no"}}', STATUSES[kind], more)
    elif kind in DOCUMENTS:
        _write(writer, DOCUMENTS[kind])
        tokens_of = (900, 0) if kind == "no choices" else (0, 0)
        await writer.drain()
        return tokens_of, True
    elif kind in BROKEN:
        return (0, 0), await _break(kind, writer)
    else:
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        if kind in USAGES:
            usage, tokens = {"prompt_tokens": USAGES[kind], "completion_tokens": 3}, (0, 0)
        message = {"role": "assistant", "content": TEXTS.get(kind, text), "refusal": None}
        if kind == "refusal":
            message |= {"content": None, "refusal": "I would rather not"}
        finish = "length" if kind == "cut in the middle" else FINISHES.get(kind, "stop")
        choice = {"index": 0, "message": message, "finish_reason": finish}
        model = "another-model" if kind == "other model" else ""
        _write(writer, json.dumps({"model": model, "choices": [choice], "usage": usage}).encode())
        await writer.drain()
        return tokens, True
    await writer.drain()
    return (0, 0), True


async def _break(kind: str, writer: asyncio.StreamWriter) -> bool:
    if kind == "slow":
        await asyncio.sleep(_SLOW_SECONDS)
    if kind == "dropped in the middle":
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"id": "x", "choices": [')
        await writer.drain()
    if kind == "huge":
        _write(writer, b" " * HUGE_BYTES)
        await writer.drain()
    return False


def _write(writer: asyncio.StreamWriter, body: bytes, status: int = 200, headers: str = "") -> None:
    writer.write(f"HTTP/1.1 {status} x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def _read_request(reader: asyncio.StreamReader) -> bytes | None:
    """The body of a POST, or None for a GET."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    return None if head.startswith("GET") else body


async def _serve(script: Mapping[str, Any], log: Path) -> None:
    handler: Callable[..., Any] = _Script(script, log).handle
    server = await asyncio.start_server(handler, "127.0.0.1", 0, backlog=1024, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1]), Path(sys.argv[2])))
