"""What every installed ingester promises, ours and guests': identities before reading, whole records, plain errors."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from ares.episode import Record
from ares.errors import AresError
from ares.registry import ingesters
from ares_ingest.base import Ingester, Item, SourceOptions
from tests.contracts.conftest import MakeSample
from tests.thinning import some_by_day


@pytest.fixture(params=ingesters.names())
def ingester(request: pytest.FixtureRequest) -> Ingester:
    plugin = ingesters.get(request.param)
    assert isinstance(plugin, Ingester)
    return plugin


@pytest.fixture
def sample(ingester: Ingester, make_samples: dict[str, MakeSample], tmp_path: Path) -> Path:
    """A good dataset of the format; guests' ingesters are tried without one."""
    if ingester.name not in make_samples:
        pytest.skip(f"no sample of format {ingester.name}: enter one in tests/contracts/conftest.py")
    return make_samples[ingester.name](tmp_path)


def _items(ingester: Ingester, sample: Path) -> list[Item]:
    sources = ingester.open(str(sample), SourceOptions(rate_hz=10.0))
    items = [item for source in sources for item in source.items]
    assert len(items) == sum(source.total for source in sources)
    assert {source.format for source in sources} == {ingester.name}
    return items


def test_what_is_not_its_format_is_not_recognised(ingester: Ingester, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    (tmp_path / "empty").mkdir()
    assert not ingester.recognises(str(tmp_path / "notes.txt"))
    assert not ingester.recognises(str(tmp_path / "empty"))


def test_its_own_dataset_is_recognised(ingester: Ingester, sample: Path) -> None:
    assert ingester.recognises(str(sample))


def test_identities_are_known_before_reading_and_stay(ingester: Ingester, sample: Path) -> None:
    """So that nothing is read or stored again; what then happens is in tests/ingest/pipeline/test_run.py."""
    first, again = _items(ingester, sample), _items(ingester, sample)
    ids = [item.episode_id for item in first]
    assert ids and len(set(ids)) == len(ids)
    assert ids == [item.episode_id for item in again]
    assert first[0].load().episode.content_hash == again[0].load().episode.content_hash


def test_an_item_travels_to_another_process_and_becomes_its_record(ingester: Ingester, sample: Path) -> None:
    item = _items(ingester, sample)[0]
    record: Record = pickle.loads(pickle.dumps(item.load))()
    assert record.episode.episode_id == item.episode_id
    assert item.location


def test_signals_have_a_row_for_every_step(ingester: Ingester, sample: Path) -> None:
    for item in _items(ingester, sample)[:3]:
        record = item.load()
        seconds = record.trajectory.timestamps
        assert seconds.dtype == np.float64 and len(seconds) == record.episode.num_steps
        assert seconds[0] >= 0 and (np.diff(seconds) > 0).all()
        for signal in (record.trajectory.state, record.trajectory.action):
            assert signal is None or signal.values.shape == (len(seconds), len(signal.names))


def test_cameras_name_pixels_that_are_there(ingester: Ingester, sample: Path) -> None:
    from ares.media import frames_at

    for camera in _items(ingester, sample)[0].load().episode.cameras:
        (image,) = frames_at(camera.media, [0.0])
        assert image.dtype == np.uint8 and image.shape == (camera.height, camera.width, 3)


@pytest.mark.parametrize("share", some_by_day([0.3, 0.0, 0.9]))
def test_a_cut_file_costs_records_and_no_traceback(
    ingester: Ingester, sample: Path, tmp_path: Path, share: float
) -> None:
    copy = tmp_path / "copy" / sample.name
    copy.parent.mkdir()
    shutil.copytree(sample, copy) if sample.is_dir() else shutil.copy(sample, copy)
    largest = max(
        (path for path in [copy, *copy.rglob("*")] if path.is_file()), key=lambda path: path.stat().st_size
    )
    data = largest.read_bytes()
    largest.write_bytes(data[: int(len(data) * share)])
    try:
        items = [
            item for source in ingester.open(str(copy), SourceOptions(rate_hz=10.0)) for item in source.items
        ]
    except AresError:
        return
    for item in items:
        try:
            item.load()
        except AresError as error:
            assert error.reason and "\n" not in str(error)
