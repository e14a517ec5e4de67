"""No episode is accepted by a grade of another caption than the one that it shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from ares.episode import Record
from ares.settings import settings_from_environment
from ares.store import reset_applied_sequence
from ares.workspace import open_workspace
from tests.ares.store.sync.histories import Step, Writer, play, steps_of
from tests.ares.store.sync.producers import CAPTIONERS, CONSENSUS, CORRECTOR, JUDGES, RULERS

_HISTORIES = st.lists(
    steps_of((*CAPTIONERS, CORRECTOR, CONSENSUS, *JUDGES, *RULERS, *JUDGES)), min_size=8, max_size=30
)
_folders = count()


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=_HISTORIES)
def test_an_accepted_episode_shows_the_caption_that_was_accepted(
    tmp_path: Path, make_record: Callable[..., Record], history: list[Step]
) -> None:
    workspace = open_workspace(str(tmp_path / str(next(_folders))), settings_from_environment({}))
    stores = workspace.stores
    stores.tables.episodes.add([make_record(number) for number in range(3)])
    writer = Writer(sorted(stores.tables.episodes.ids()), stores.annotations)
    play(history, writer, stores.sync, lambda _: reset_applied_sequence(stores.tables))

    # A column exists from the first producer on that declares it.
    names = {"caption", "acceptable"} & stores.tables.episodes.columns().keys()
    rows = workspace.stores.tables.episodes.read_columns(["episode_id", *sorted(names)]).to_pylist()
    log = [annotation for _, annotation in stores.annotations.read()]
    captions = {annotation.annotation_id: annotation for annotation in log if annotation.name == "caption"}
    segments = set(stores.tables.segments.read()["annotation_id"].to_pylist())
    for row in (row for row in rows if row.get("acceptable")):
        accepted = {
            annotation.subject
            for annotation in log
            if annotation.name == "grade" and _accepts(annotation.value)
            if captions[annotation.subject].episode_id == row["episode_id"]
        }
        texts = {captions[key].value.get("caption") for key in accepted & segments}
        assert row["caption"] in texts
    workspace.close()


def _accepts(value: object) -> bool:
    """Whether a grade accepts its caption, or the ruling of a person could."""
    return isinstance(value, dict) and (bool(value.get("acceptable")) or "grade" not in value)
