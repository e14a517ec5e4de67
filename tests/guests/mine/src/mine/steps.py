"""Reads NAME.steps.json: {"instruction": TEXT, "rate_hz": NUMBER, "state": [[NUMBER, ...], ...]}."""

from ares.episode import Signal
from ares.errors import SourceError
from ares.input import read_json
from ares_ingest.file_ingester import FileEpisode, FileIngester


def read_steps(path: str) -> FileEpisode:
    """The episode in a file."""
    import numpy as np

    document = read_json(path)
    if "state" not in document:
        raise SourceError("steps have no state", path)
    values = np.array(document["state"], np.float32)
    names = tuple(f"joint_{number}" for number in range(values.shape[1]))
    return FileEpisode(
        state=Signal(values, names),
        rate_hz=document["rate_hz"],
        instruction=document["instruction"],
    )


steps = FileIngester("steps", ".steps.json", read_steps)
