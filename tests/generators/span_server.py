"""A model server over HTTP that knows what happens when in videos, and tells of it with errors that were planted.

It speaks the dialect of OpenAI. Which episode a frame is of it reads from the frame, what was asked from the prompt.
"""

from __future__ import annotations

import base64
import json
import random
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.event_logs import LogEvent
from tests.judges.marked_frames import draw_frame, read_image

_VERBS = ("pick up", "put down", "open", "shut", "push", "turn", "wipe", "pour")
_THINGS = ("cup", "box", "drawer", "lid", "towel", "bottle")
# Marks of seconds that frames can have.
_MARKED_SECONDS = 20
# As published for Qwen2.5-VL: a patch of so many pixels is a token, and an image has two marks.
_PATCH, _IMAGE_MARKS = 28, 2
_TOKENS = re.compile(r"\d|[A-Za-z]{1,5}|[^\sA-Za-z\d]")
_WINDOW = re.compile(
    r"at which it begins, ([\d.]+) at the least.*at which it ends, ([\d.]+) at the most", re.S
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedErrors:
    """The errors of a model.

    Attributes:
        noise: Standard deviation of the times that it tells, in seconds.
        missed: Share of the events that it does not tell of.
        invented: Events a minute that it tells of and that are none.
        jitter: It is off by at most so many seconds more, in each window differently.
        one_sided: Share of the events that only one of the windows that show them tells of.
    """

    noise: float = 0.0
    missed: float = 0.0
    invented: float = 0.0
    jitter: float = 0.0
    one_sided: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldChange:
    """A change as the model tells of it.

    Attributes:
        seconds: When it says that it happens.
        name: What it says is done from then on, "" for nothing.
        event: Number of the event in the log, or -1 where it is invented.
    """

    seconds: float
    name: str
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEpisode:
    """An episode that a model tells of.

    Attributes:
        number: Its number, which its frames show.
        duration: Seconds.
        events: Its log: one after another, from 0 to the duration.
        told: The changes that the model tells of, in order of time.
    """

    number: int
    duration: float
    events: tuple[LogEvent, ...]
    told: tuple[ToldChange, ...]


def draw_log(dice: random.Random, duration: float, least_seconds: float) -> tuple[LogEvent, ...]:
    """Events one after another, each at least so long; some are pauses, whose name is ""."""
    edges = [0.0]
    while edges[-1] + 2 * least_seconds + 6.0 < duration:
        edges.append(round(edges[-1] + least_seconds + dice.uniform(0.0, 6.0), 3))
    events: list[LogEvent] = []
    for start, stop in zip(edges, [*edges[1:], duration], strict=True):
        last = events[-1].name if events else ""
        names = [f"{verb} the {thing}" for verb in _VERBS for thing in _THINGS]
        is_pause = bool(last) and dice.random() < 0.12
        name = "" if is_pause else dice.choice([own for own in names if own != last])
        events.append(LogEvent("", name, start, stop))
    return tuple(events)


def tell(number: int, events: Sequence[LogEvent], errors: PlantedErrors, dice: random.Random) -> ToldEpisode:
    """What a model with some errors tells of an episode. Beside a pause it misses nothing, as it could not say so."""
    duration = events[-1].stop
    told: list[ToldChange] = []
    for position, event in enumerate(events[1:], 1):
        # Uniform noise of that standard deviation: no two events change places.
        shift = errors.noise * 3**0.5 * dice.uniform(-1, 1)
        if dice.random() < errors.missed and may_be_missed(events, position):
            continue
        told.append(ToldChange(seconds=event.start + shift, name=event.name, event=position))
    edges = [0.0, *(change.seconds for change in told), duration]
    for start, stop in pairwise(edges):
        if dice.random() < errors.invented * (stop - start) / 60 and stop - start > 1.0:
            middle = (start + stop) / 2
            name = f"{dice.choice(_VERBS)} the {dice.choice(_THINGS)}"
            told.append(ToldChange(seconds=middle, name=name, event=-1))
    told.sort(key=lambda change: change.seconds)
    return ToldEpisode(number=number, duration=duration, events=tuple(events), told=tuple(told))


def may_be_missed(events: Sequence[LogEvent], position: int) -> bool:
    """Whether an event of a log lies beside no pause."""
    return all(event.name for event in events[max(0, position - 1) : position + 2])


def write_marked_videos(folder: Path, numbers: Sequence[int], seconds: float, rate_hz: float) -> Path:
    """Write a video for each number, whose frames show it."""
    from ares.media import encode_mp4

    folder.mkdir(parents=True)
    for number in numbers:
        frames = (
            draw_frame(number, position % _MARKED_SECONDS) for position in range(round(seconds * rate_hz))
        )
        encode_mp4(frames, folder / f"{number:04d}.mp4", rate_hz)
    return folder


class SpanServer:
    """Serves models that tell of episodes; a context that ends it.

    Args:
        models: By the name of each model the errors it has, and the episodes it tells of by number.

    Attributes:
        url: Its address.
        calls: Tokens in and out of each call so far, by model.
    """

    def __init__(self, models: Mapping[str, tuple[PlantedErrors, Mapping[int, ToldEpisode]]]) -> None:
        self._models = models
        self.calls: dict[str, list[tuple[int, int]]] = {name: [] for name in models}
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served = [{"id": name, "object": "model", "owned_by": "vllm"} for name in owner._models]
                self._send({"object": "list", "data": served})

            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(owner.complete(document))

            def _send(self, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # Connections that wait: a dropped one would be asked again, and paid again.
            request_queue_size = 1_000

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> SpanServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def complete(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a request."""
        (message,) = [own for own in document["messages"] if own["role"] == "user"]
        parts = message["content"]
        prompt = "\n".join(part["text"] for part in parts if part["type"] == "text")
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        errors, episodes = self._models[document["model"]]
        number = read_image(urls[0])[0] if urls else None
        episode = None if number is None else episodes.get(number)
        text = answer_prompt(prompt, episode, errors)
        tokens = (sum(map(_image_tokens, urls)) + len(_TOKENS.findall(prompt)), len(_TOKENS.findall(text)))
        with self._lock:
            self.calls[document["model"]].append(tokens)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        return {"model": document["model"], "choices": [choice], "usage": usage}


def answer_prompt(prompt: str, episode: ToldEpisode | None, errors: PlantedErrors) -> str:
    """The reply of a model about a window; it sees nothing where frames show no episode."""
    window = _WINDOW.search(prompt)
    assert window is not None, prompt
    start, stop = map(float, window.groups())
    return json.dumps({"spans": [] if episode is None else list(_window_spans(episode, start, stop, errors))})


def _window_spans(episode: ToldEpisode, start: float, stop: float, errors: PlantedErrors) -> Any:
    opening, changes = episode.events[0].name, list[tuple[float, str]]()
    for change in episode.told:
        dice = random.Random(f"{episode.number} {change.seconds} {start}")
        seconds = change.seconds + dice.uniform(-1, 1) * errors.jitter
        if seconds <= start:
            opening = change.name
        elif seconds < stop and not _is_untold(episode, change, start, stop, errors):
            changes.append((seconds, change.name))
    changes.sort()
    edges = [(start, opening), *changes, (stop, "")]
    for (begins, name), (ends, _) in pairwise(edges):
        if name:
            yield {"start": round(begins, 2), "end": round(ends, 2), "arm": "", "what": name}


def _is_untold(
    episode: ToldEpisode, change: ToldChange, start: float, stop: float, errors: PlantedErrors
) -> bool:
    """Whether this window leaves a change to the other one that shows it; only one near an edge may be shown twice."""
    dice = random.Random(f"one side {episode.number} {change.seconds}")
    is_one_sided, is_left_to_later = dice.random() < errors.one_sided, dice.random() < 0.5
    is_near_stop = stop - change.seconds < 2.0 and stop < episode.duration - 1e-6
    is_near_start = change.seconds - start < 2.0 and start > 0
    return is_one_sided and (is_near_stop if is_left_to_later else is_near_start)


def _image_tokens(url: str) -> int:
    import cv2
    import numpy as np

    data = np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
    assert image is not None
    height, width = map(int, image.shape[:2])
    return round(height / _PATCH) * round(width / _PATCH) + _IMAGE_MARKS
