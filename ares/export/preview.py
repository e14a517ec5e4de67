"""A page that shows some episodes as an export would write them: their rows, curves and frames."""

from __future__ import annotations

import base64
import html
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.episode import Camera, Signal
from ares.errors import AresError, RequestError
from ares.export.base import (
    MASK_SIGNALS,
    EpisodeTaskText,
    ExportFailures,
    ExportRequest,
    annotator_values,
    open_span_texts,
)
from ares.export.retime import RetimedEpisode, retime_episode
from ares.export.rlds.record import encode_jpeg
from ares.export.run import ExportReader, member_tasks, open_reader
from ares.store import ids_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


_BATCH_IDS = 10_000
_MOST_EPISODES = 200
_FRAMES, _FRAME_PIXELS = 4, 240
_PLOT_WIDTH, _PLOT_HEIGHT, _COLOURS = 480, 120, 8
_ROWS = 3
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1b1b1f; }
section { border-top: 1px solid #c8c8d0; padding: 1rem 0; }
img { margin: 0 .4rem .4rem 0; vertical-align: top; }
svg { background: #f6f6f9; margin: 0 .6rem .6rem 0; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
td, th { padding: .1rem .5rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e2e2e8; }
h2 { font-size: 1.1rem; margin: 0 0 .3rem; }
figure { margin: 0; display: inline-block; }
figcaption, .fact { color: #55555f; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewReport:
    """What a preview shows.

    Attributes:
        path: The page, one HTML file that needs no other.
        episodes: Episodes or spans that it shows.
        failed: Those that an export would leave out, which the page lists with the reason.
    """

    path: Path
    episodes: int
    failed: int


def write_preview(request: ExportRequest, stores: Stores, count: int) -> PreviewReport:
    """Write a page with some members of a set as an export would write them; `request.destination` is the file.

    Args:
        request: The export.
        stores: Stores of the workspace.
        count: Members to show, the same number of each dataset where it has so many.

    Raises:
        RequestError: The file exists or cannot be written, the number is not between 1 and 200, or as `export_set`.
        ClashError: As `export_set`.
    """
    if not 1 <= count <= _MOST_EPISODES:
        raise RequestError(f"a preview has 1 to {_MOST_EPISODES} episodes", f"got {count}")
    path = request.destination
    if path.exists():
        raise RequestError("the file of the preview exists already", f"{path}; name a new one")
    reader = open_reader(request, stores)
    members = _choose_members(reader, count)
    with tempfile.TemporaryDirectory(prefix="ares-preview-") as folder:
        failures = ExportFailures(Path(folder), strict=False)
        sections = list(_make_sections(reader, request, members, failures))
        text = _make_page(request, sections, failures)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError("the preview cannot be written", f"{path}: {error}") from None
    return PreviewReport(path=path, episodes=len(sections), failed=len(failures.members))


def _choose_members(reader: ExportReader, count: int) -> list[str]:
    """Members of a set, as evenly from its datasets as they have some, by the order of their ids."""
    by_dataset: dict[str, list[str]] = {}
    all_members = reader.members()
    while batch := list(islice(all_members, _BATCH_IDS)):
        ids = list(dict.fromkeys(member.partition(" ")[0] for member in batch))
        rows = reader.stores.tables.episodes.read_columns(["episode_id", "dataset"], ids_filter(ids))
        datasets = dict(zip(*rows.to_pydict().values(), strict=True))
        for member in batch:
            members_of_dataset = by_dataset.setdefault(datasets.get(member.partition(" ")[0], ""), [])
            if len(members_of_dataset) < count:
                members_of_dataset.append(member)
    turns = (members[turn] for turn in range(count) for members in by_dataset.values() if turn < len(members))
    return sorted(islice(turns, count))


def _make_sections(
    reader: ExportReader, request: ExportRequest, members: Sequence[str], failures: ExportFailures
) -> Iterator[str]:
    texts = open_span_texts(reader.stores, request)
    for batch in reader.member_batches(failures, members):
        rows = annotator_values(reader.stores, batch.ids)
        annotations = reader.stores.annotations.find_annotations(batch.ids)
        tasks = member_tasks(request, batch, rows, texts, annotations)
        for name, episode, span in batch.members:
            id = episode.episode_id
            try:
                retimed = retime_episode(episode, batch.trajectories[id], request.clock, span)
                yield _make_section(retimed, tasks[name].task, batch.reasons.get(id, ()))
            except AresError as error:
                failures.add(name, error)


def _make_section(retimed: RetimedEpisode, task: EpisodeTaskText, reasons: Sequence[str]) -> str:
    episode, signals = retimed.episode, retimed.trajectory
    facts = (
        f"{count_of(episode.num_steps, 'step')} at {episode.rate_hz:g} Hz, split {episode.split or 'none'}, "
        f"id {episode.episode_id}"
    )
    changed = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    curves = {
        name: own for name, own in (("state", signals.state), ("action", signals.action)) if own and own.names
    }
    masks = {name: own for name, own in signals.extra.items() if name in MASK_SIGNALS}
    parts = [
        f"<section><h2>{html.escape(f'{episode.dataset} {episode.key}')}: {html.escape(task.text)}</h2>",
        f'<p class="fact">{html.escape(facts)}</p>',
        f"<ul>{changed}</ul>" if changed else "",
        *(_draw_camera(camera, retimed) for camera in episode.cameras),
        "<div>",
        *(_draw_curves(name, signal) for name, signal in curves.items()),
        "</div>",
        *(_draw_rows(name, signal) for name, signal in (curves | masks).items()),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _draw_camera(camera: Camera, retimed: RetimedEpisode) -> str:
    """Some frames of a camera, evenly spaced over the steps that are written."""
    from ares.media import frames_at

    seconds = retimed.camera_seconds(camera)
    last = len(seconds) - 1
    frames = frames_at(camera.media, [seconds[round(last * part / (_FRAMES - 1))] for part in range(_FRAMES)])
    height = min(_FRAME_PIXELS, camera.height)
    images = (base64.b64encode(encode_jpeg(frame)).decode() for frame in frames)
    label = html.escape(f"{camera.name}, {camera.width}x{camera.height}")
    pictures = "".join(
        f'<img alt="{label}" height="{height}" src="data:image/jpeg;base64,{image}">' for image in images
    )
    return f"<p>{pictures}<br><span class=fact>{label}</span></p>"


def _draw_curves(name: str, signal: Signal) -> str:
    """An SVG with one line for each dimension, each over the range of its own values."""
    import numpy as np

    lines = []
    for number in range(len(signal.names)):
        points = _curve_points(np.asarray(signal.values[:, number], np.float64))
        hue = 360 * (number % _COLOURS) / _COLOURS
        title = html.escape(signal.names[number])
        lines.append(
            f'<polyline fill="none" stroke="hsl({hue:.0f} 65% 42%)" points="{points}"><title>{title}</title></polyline>'
        )
    size = f'width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}"'
    label = html.escape(f"{name}: {', '.join(signal.names)}")
    return (
        f'<figure><svg {size} role="img" aria-label="{label}">{"".join(lines)}</svg>'
        f"<figcaption>{html.escape(name)}</figcaption></figure>"
    )


def _curve_points(values: NDArray[np.float64]) -> str:
    """Points of a polyline: lowest and highest value of each column of pixels, so that no peak is lost."""
    import numpy as np

    low, high = float(values.min()), float(values.max())
    heights = (_PLOT_HEIGHT - 4) * (1 - (values - low) / ((high - low) or 1.0)) + 2
    edges = np.linspace(0, len(values), min(len(values), _PLOT_WIDTH // 2) + 1).astype(int)
    points = []
    for column, (start, stop) in enumerate(pairwise(edges)):
        x = _PLOT_WIDTH * column / max(len(edges) - 1, 1)
        part = heights[start:stop]
        points += [f"{x:.1f},{part.min():.1f}"] + ([f"{x:.1f},{part.max():.1f}"] if len(part) > 1 else [])
    return " ".join(points)


def _draw_rows(name: str, signal: Signal) -> str:
    """A table of the first rows and the last one."""
    count = len(signal.values)
    numbers = [*range(min(_ROWS, count)), *([count - 1] if count > _ROWS else [])]
    head = "".join(f"<th>{html.escape(dimension)}</th>" for dimension in signal.names)
    body = "".join(
        f"<tr><th>{number}</th>{''.join(f'<td>{value:.4g}</td>' for value in signal.values[number].tolist())}</tr>"
        for number in numbers
    )
    return f"<table><tr><th>{html.escape(name)}</th>{head}</tr>{body}</table>"


def _make_page(request: ExportRequest, sections: Sequence[str], failures: ExportFailures) -> str:
    title = html.escape(f"Preview of {request.set.label}")
    failed = "".join(f"<li>{html.escape(str(tally))}</li>" for tally in failures.tallies())
    left_out = f"<h2>An export would leave out</h2><ul>{failed}</ul>" if failed else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1><p>{len(sections)} of {request.set.size}, as an export writes them.</p>{left_out}\n"
        + "\n".join(sections)
        + "</body></html>\n"
    )
