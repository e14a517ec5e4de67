"""Remote: the parts of a run that may work on another machine, made there from what can be sent."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from annotators.base import Annotator, Factory, Options, Result, Work
from annotators.frames import Frames
from ares.errors import AresError, MediaError, ModelError, RequestError
from ares.jobs.engine import Engine, Hired, Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.workspace import Workspace

Keep = Callable[[Frames], Callable[[], Frames | None]]


def staffed(engine: Engine, factory: Factory, options: Options, ws: Workspace, gpu: float) -> Annotator:
    """An annotator whose calls are worked on by an engine; it says here what it wants, costs and is.

    Args:
        engine: Where.
        factory: Makes it, here and again wherever it works.
        options: Models, layout, rubric.
        ws: The workspace.
        gpu: Share of a GPU that it may take.
    """
    annotator = factory(options, ws)
    hired: Hired[Work, Result] = engine.hire(
        annotator.process,
        workers=annotator.workers,
        lost=ModelError,
        build=partial(
            _process, factory, options, ws.location, socket.gethostname(), annotator.maker.maker_id
        ),
        together=annotator.workers > 1,
        gpu=0.0 if options.device == "cpu" else gpu,
    )
    return replace(annotator, process=hired.run, workers=hired.workers)


def _process(factory: Factory, options: Options, folder: str, host: str, maker_id: str) -> Run[Work, Result]:
    from ares.manifest import exists
    from ares.workspace import open_workspace

    here = socket.gethostname()
    if not exists(folder):
        raise RequestError("a worker does not see the workspace", f"no {folder} on {here}; share the folder")
    if here != host and (Path(folder) / "annotations.sqlite").exists():
        # SQLite's log is shared memory: through a network file system it is damaged.
        raise RequestError(
            "a cluster of several machines needs annotations in MongoDB",
            f"{folder} keeps them in SQLite, and {here} is not {host}; make a workspace with ARES_MONGO_URI",
        )
    annotator = factory(options, open_workspace(folder, options.settings))
    if annotator.maker.maker_id != maker_id:
        raise RequestError(
            "a worker loads another model than this machine",
            f"{annotator.maker.model!r} on {here}; the same device and files must be on both (--device)",
        )
    return annotator.process


def hire_decoders(engine: Engine, readers: int) -> Hired[Frames, Frames]:
    """Hands that decode frames."""
    return engine.hire(_decode, workers=readers, lost=MediaError, build=partial(_decoder, engine.keep))


def lost_frames(frames: Frames, error: AresError) -> Frames:
    """Frames that raise why they could not be decoded."""
    return KeptFrames(frames, partial(_raise, error))


def _decode(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
    for frames in batch:
        frames.decode()
    return batch


def _decoder(keep: Keep) -> Run[Frames, Frames]:
    """Decodes where the pixels can stay: only word of them goes back to the driver."""

    def decode(batch: Sequence[Frames]) -> Sequence[Frames | AresError]:
        kept: list[Frames | AresError] = []
        for frames in batch:
            light = copy.deepcopy(frames)
            frames.decode()
            kept.append(KeptFrames(light, keep(frames)))
        return kept

    return decode


def _raise(error: AresError) -> Frames | None:
    raise error


class KeptFrames(Frames):
    """Frames whose pixels lie elsewhere until an annotator asks for them.

    Args:
        frames: The same, not decoded.
        fetch: Gets them decoded, or None when they are lost; then they are decoded again.
    """

    def __init__(self, frames: Frames, fetch: Callable[[], Frames | None]) -> None:
        self._frames, self._fetch = frames, fetch
        self._here: Frames | None = None

    def decode(self) -> None:
        """Get the pixels. Raises MediaError."""
        self._here = self._fetch()
        if self._here is None:
            self._frames.decode()
            self._here = self._frames

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`."""
        if self._here is None:
            self.decode()
        assert self._here is not None
        return self._here.at(camera, seconds)
