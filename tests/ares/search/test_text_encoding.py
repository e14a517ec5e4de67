"""A text search needs neither the model nor its library once the text encoder of the space is stored."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ares.doctor import run_checks
from ares.search import TEXT_ENCODER_FOLDER, Query, encoding as embedding_spaces, find_embedding_space, search
from ares.search.encoding import Encoder, encode_text, load_encoder
from ares.search.spaces import EmbeddingSpace
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

# Searches in a new process and prints the vector of the text, and which libraries were imported.
_SEARCH = """
import json, sys
from ares.search import find_embedding_space, search, Query
from ares.search.encoding import encode_text
from ares.settings import Settings
from ares.workspace import open_workspace
ws = open_workspace(sys.argv[1], Settings())
hits = search(ws.stores, Query(text=sys.argv[2]))
vector = encode_text(ws.stores, find_embedding_space(ws.stores), sys.argv[2])
libraries = sorted({"torch", "open_clip", "transformers", "torchvision", "tokenizers"} & {*sys.modules})
print(json.dumps({"hits": [hit.to_json() for hit in hits], "vector": vector.tolist(), "libraries": libraries}))
"""
_TEXT = "close the green drawer"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path, reference_models: Path) -> Path:
    """A workspace of a few episodes, embedded by a copy of the reference model that lies beside it."""
    folder = tmp_path_factory.mktemp("text-encoding")
    shutil.copytree(reference_models / "reference-clip", folder / "reference-clip")
    settings = Settings(embed_model=f"local-dir:{folder / 'reference-clip'}")
    workspace = open_workspace(str(folder / "ws"), settings)
    ingest_paths(workspace.stores, [str(demo_samples / "video")], limit=4, quiet=True)
    annotate(workspace.stores, ["embed"], Options(settings=settings), quiet=True)
    workspace.close()
    return folder


@pytest.fixture
def folder(embedded: Path, tmp_path: Path) -> Path:
    """A copy of that workspace; its model is where it was."""
    shutil.copytree(embedded / "ws", tmp_path / "ws")
    return tmp_path / "ws"


@pytest.fixture
def ws(folder: Path) -> Iterator[Workspace]:
    _forget()
    workspace = open_workspace(str(folder), Settings())
    yield workspace
    workspace.close()
    _forget()


def _forget() -> None:
    """Make the next search of this process like the first of a new one."""
    for remembered in (embedding_spaces._load_cached, embedding_spaces._open_encoder):
        remembered.cache_clear()
    embedding_spaces._recent_vectors.cache_clear()


def _loads_model(ws: Workspace, text: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a search as of a new process loads the whole model."""
    _forget()
    loaded: list[str] = []
    load = embedding_spaces.load_encoder

    def load_and_note(space: EmbeddingSpace) -> Encoder:
        loaded.append(space.name)
        return load(space)

    with monkeypatch.context() as patch:
        patch.setattr(embedding_spaces, "load_encoder", load_and_note)
        assert search(ws.stores, Query(text=text))
    return bool(loaded)


def _stored(folder: Path) -> Path:
    return next((folder / TEXT_ENCODER_FOLDER).glob("*.safetensors"))


@pytest.mark.slow
def test_embedding_stores_the_text_encoder_and_searches_load_no_model(folder: Path, ws: Workspace) -> None:
    command = [sys.executable, "-c", _SEARCH, str(folder), _TEXT]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert found["libraries"] == ["tokenizers"]
    assert found["hits"] == json.loads(
        json.dumps([hit.to_json() for hit in search(ws.stores, Query(text=_TEXT))])
    )
    expected = load_encoder(find_embedding_space(ws.stores)).encode_texts([_TEXT])[0]
    np.testing.assert_allclose(np.array(found["vector"]), expected, atol=1e-4)


@pytest.mark.parametrize(
    "damage", ["lost", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cut", "empty", "other"))]
)
def test_a_workspace_without_a_whole_one_loads_the_model_a_single_time_and_stores_it(
    ws: Workspace,
    folder: Path,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = _stored(folder)
    whole = path.read_bytes()
    path.write_bytes({"lost": b"", "cut": whole[:-1000], "empty": b"", "other": b"x" * 5000}[damage])
    if damage == "lost":
        shutil.rmtree(folder / TEXT_ENCODER_FOLDER)
    assert _loads_model(ws, _TEXT, monkeypatch)
    assert "stored the text encoder of reference-clip" in capsys.readouterr().err
    assert path.read_bytes() == whole
    assert not _loads_model(ws, "open a window", monkeypatch)
    assert "stored" not in capsys.readouterr().err


@pytest.mark.slow
def test_texts_are_found_where_the_model_is_not(ws: Workspace, embedded: Path) -> None:
    expected = search(ws.stores, Query(text=_TEXT))
    model, elsewhere = embedded / "reference-clip", embedded / "elsewhere"
    model.rename(elsewhere)
    try:
        _forget()
        assert search(ws.stores, Query(text=_TEXT)) == expected
        assert search(ws.stores, Query(text="open a window"))
    finally:
        elsewhere.rename(model)


@pytest.mark.slow
def test_a_model_that_was_exchanged_is_not_stored(
    ws: Workspace,
    folder: Path,
    embedded: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from safetensors.torch import load_file, save_file

    shutil.rmtree(folder / TEXT_ENCODER_FOLDER)
    weights = embedded / "reference-clip" / "open_clip_model.safetensors"
    original = weights.read_bytes()
    weights.chmod(0o644)
    tensors = load_file(weights)
    tensors["logit_scale"] = tensors["logit_scale"] + 1
    try:
        save_file(tensors, weights)
        assert _loads_model(ws, _TEXT, monkeypatch)
        assert "stored" not in capsys.readouterr().err
        assert not list((folder / TEXT_ENCODER_FOLDER).glob("*.safetensors"))
    finally:
        weights.write_bytes(original)


def test_a_workspace_that_cannot_be_written_to(
    ws: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / TEXT_ENCODER_FOLDER)
    (folder / TEXT_ENCODER_FOLDER).write_text("no folder, and so no file can be written below it")
    space = find_embedding_space(ws.stores)
    vector = encode_text(ws.stores, space, _TEXT)
    np.testing.assert_allclose(vector, load_encoder(space).encode_texts([_TEXT])[0], atol=1e-4)
    with monkeypatch.context() as patch:
        patch.setattr(embedding_spaces, "load_encoder_model", None)
        assert np.array_equal(encode_text(ws.stores, space, _TEXT), vector), "this process remembers it"


def test_only_its_owner_decides_who_reads_the_file(folder: Path) -> None:
    manifest = folder / "workspace.json"
    readers = 0o044
    assert _stored(folder).stat().st_mode & readers == manifest.stat().st_mode & readers


def test_the_doctor_removes_what_a_killed_process_was_writing(folder: Path, ws: Workspace) -> None:
    path = _stored(folder)
    partial = path.with_name("gone-0123abcd.7.tmp")
    partial.touch()
    os.utime(partial, (0, 0))
    run_checks(ws.stores, repair=True)
    assert path.exists() and not partial.exists()
