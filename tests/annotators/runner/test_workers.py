"""Workers of this machine: every GPU is used, nothing exceeds the machine, and results are those of one worker."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares import registry
from ares.errors import RequestError
from ares.jobs import ComputePlan, WorkerNeeds
from ares.jobs.worker_process import MachineMemory
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.models import estimate_worker_resources
from ares_annotators.runner import remote as replicas
from ares_app.cli.main import main
from tests.annotators.runs import annotate
from tests.workspaces import copy_workspace

SETTINGS = settings_from_environment({})
# A worker process imports it from a file, as it would an installed package.
PLUGIN = """
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from ares_annotators.base import FrameVectors, Result, new_annotation
from ares_annotators.models.doubles import HashEncoder
from ares.annotation import Producer
from ares.jobs import WorkerNeeds

PRODUCER = Producer(annotator="slow", version="1")
FOLDER = Path(__file__).parent
DIES, HAS_DIED = FOLDER / "dies", FOLDER / "has_died"


def wait_for_the_others():
    deadline = time.monotonic() + 300
    while not all((FOLDER / f"cuda:{number}").exists() for number in (1, 2)) and time.monotonic() < deadline:
        time.sleep(0.05)


def make_slow(options, stores):
    (FOLDER / options.device).touch()

    def process(works):
        if options.device == "cuda:1" and DIES.exists() and not HAS_DIED.exists():
            HAS_DIED.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if not options.device and not options.compute.workers:
            wait_for_the_others()
        time.sleep(0.1)
        return [answer(work, options.device) for work in works]

    needs = WorkerNeeds(gpus=1.0)
    return SimpleNamespace(producer=PRODUCER, process=process, space="hash-8", needs=needs)


def answer(work, device):
    vectors = FrameVectors(
        episode_id=work.episode.episode_id,
        camera="front",
        seconds=np.array([0.0]),
        vectors=HashEncoder(8).encode_texts([work.episode.instruction]),
    )
    return Result(annotations=[new_annotation(work, PRODUCER, {"device": device})], vectors=[vectors])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Folder of a plug-in, which waits until the processes beside it are there."""
    (tmp_path / "slow_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("ares.jobs.local._REPLICA_START_SECONDS", 0.0)
    monkeypatch.setattr(replicas, "_count_gpus", lambda needs: 3 if needs.gpus else 0)
    monkeypatch.setattr(replicas, "available_cores", lambda: 8)

    registry.annotators.add("slow", importlib.import_module("slow_plugin").make_slow)
    yield tmp_path
    sys.modules.pop("slow_plugin")


def annotated(folder: Path, video_folder: Path, name: str, options: Options) -> Workspace:
    ws = open_workspace(str(copy_workspace(video_folder, folder / name)), SETTINGS)
    (report,) = annotate(ws.stores, ["slow"], options, quiet=True)
    assert (report.planned, report.kept, report.failed) == (12, 12, 0)
    return ws


def devices(ws: Workspace) -> dict[str, str]:
    ids = sorted(ws.stores.tables.episodes.ids())
    facts = ws.stores.annotations.find_annotations(ids, ["slow"])
    return {fact.episode_id: str(fact.value["device"]) for fact in facts}


def vectors(ws: Workspace) -> dict[str, Any]:
    table = ws.stores.tables.vectors("hash-8")
    return {id: table.read(id)[2] for id in sorted(ws.stores.tables.episodes.ids())}


@pytest.mark.slow
def test_every_gpu_gets_a_process_and_the_results_are_those_of_one(folder: Path, video_folder: Path) -> None:
    single = annotated(
        folder, video_folder, "one", Options(settings=SETTINGS, compute=ComputePlan(workers=1))
    )
    assert set(devices(single).values()) == {""}
    several = annotated(folder, video_folder, "three", Options(settings=SETTINGS))
    assert set(devices(several).values()) == {"", "cuda:1", "cuda:2"}
    assert devices(several).keys() == devices(single).keys()
    expected = vectors(single)
    for episode_id, rows in vectors(several).items():
        np.testing.assert_array_equal(rows, expected[episode_id])


@pytest.mark.slow
def test_torch_has_its_threads_again_after_a_run_that_shared_them(folder: Path, video_folder: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    try:
        annotated(folder, video_folder, "shared", Options(settings=SETTINGS))
        assert torch.get_num_threads() == 5
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost(folder: Path, video_folder: Path) -> None:
    (folder / "dies").touch()
    ws = annotated(folder, video_folder, "killed", Options(settings=SETTINGS))
    assert (folder / "has_died").exists() and len(devices(ws)) == 12


@pytest.mark.parametrize(
    ("requested", "device", "gpus", "expected"),
    [
        (ComputePlan(), "", 3, ["cuda:1", "cuda:2"]),
        (ComputePlan(gpus=0.5), "", 2, ["cuda:0", "cuda:1", "cuda:1"]),
        (ComputePlan(workers=2), "", 3, ["cuda:1"]),
        (ComputePlan(workers=9), "", 2, ["cuda:1"]),
        (ComputePlan(), "cuda:1", 3, []),
        (ComputePlan(), "", 0, []),
        (ComputePlan(workers=3), "cpu", 0, ["cpu", "cpu"]),
        (ComputePlan(workers=9), "cpu", 0, ["cpu"] * 7),
        (ComputePlan(workers=9, cpus=4), "cpu", 0, ["cpu"]),
        (ComputePlan(workers=9, memory_gb=10.0), "cpu", 0, ["cpu", "cpu"]),
    ],
)
def test_workers_never_exceed_the_machine(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    requested: ComputePlan,
    device: str,
    gpus: int,
    expected: Sequence[str],
) -> None:
    monkeypatch.setattr(replicas, "_count_gpus", lambda needs: gpus)
    monkeypatch.setattr(replicas, "available_cores", lambda: 8)
    monkeypatch.setattr(replicas, "machine_memory", lambda: MachineMemory(32 * 10**9, 24 * 10**9))
    options = Options(settings=SETTINGS, device=device, compute=requested)
    needs = requested.overrule(WorkerNeeds(gpus=1.0))
    assert [other.device for other in replicas.make_replica_options("embed", options, needs)] == expected
    is_cut = requested.workers == 9
    assert ("of 9 workers, as no more have room on this machine" in capsys.readouterr().err) == is_cut


def test_a_worker_states_the_memory_of_its_model(reference_models: Path) -> None:
    clip_folder = reference_models / "reference-clip"
    needs = estimate_worker_resources(f"local-dir:{clip_folder}")
    weights = sum(path.stat().st_size for path in clip_folder.glob("*.safetensors"))
    assert needs.gpus == 1.0 and needs.memory_bytes > weights
    assert estimate_worker_resources("openai:any@http://127.0.0.1:1/v1") == WorkerNeeds()


@pytest.mark.parametrize(
    ("per_worker", "message"),
    [
        ({"ram": 2.0}, "no resource 'ram': a worker has cpus, memory_gb, gpus"),
        ({"cpus": 0.0}, "number of cpus: 0.0"),
    ],
)
def test_a_wrong_resource_is_refused(tmp_path: Path, per_worker: dict[str, float], message: str) -> None:
    ws = open_workspace(str(tmp_path / "w"), SETTINGS)
    with pytest.raises(RequestError, match=message):
        ws.annotate("motion", per_worker=per_worker)


def test_the_command_says_what_a_number_of_workers_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        (["--workers", "0"], "'0' is not a number of workers; give a whole number from 1 on"),
    ):
        with pytest.raises(SystemExit):
            main(["annotate", "motion", "-w", str(tmp_path / "w"), *words])
        assert message in capsys.readouterr().err
