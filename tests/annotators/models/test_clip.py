"""The CLIP back end: the same vectors as open_clip's own path, and one clear line when there is no model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from annotators.models import load_clip
from ares.errors import ModelError
from ares.registry import encoders


@pytest.fixture(scope="module")
def spec(reference_models: Path) -> str:
    return f"local-dir:{reference_models / 'reference-clip'}"


@pytest.mark.parametrize("size", [(192, 192), (480, 640), (64, 48), (96, 96)])
def test_vectors_equal_those_of_open_clip_itself(spec: str, size: tuple[int, int]) -> None:
    import open_clip
    import torch
    from PIL import Image

    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for _ in range(3)]
    model, _, preprocess = open_clip.create_model_and_transforms(spec)
    with torch.inference_mode():
        batch = torch.stack([preprocess(Image.fromarray(image)) for image in images])
        expected = model.eval().encode_image(batch, normalize=True).numpy()
    assert np.abs(load_clip(spec, "cpu").encode_images(images) - expected).max() < 1e-3


def test_vectors_are_unit_length_and_do_not_depend_on_the_batch(spec: str) -> None:
    encoder = encoders.get("clip")(spec, "cpu")
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (40 + index, 60, 3), dtype=np.uint8) for index in range(70)]
    together = encoder.encode_images(images)
    assert together.shape == (70, encoder.dim)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    assert np.allclose(together[69:], encoder.encode_images(images[69:]), atol=1e-5)
    assert encoder.encode_images([]).shape == (0, encoder.dim)
    assert encoder.encode_texts(["a", "word " * 200]).shape == (2, encoder.dim)


def test_the_name_follows_the_weights_not_the_folder(spec: str, tmp_path: Path) -> None:
    folder = Path(spec.removeprefix("local-dir:"))
    copy = tmp_path / "reference-clip"
    shutil.copytree(folder, copy)
    name = load_clip(spec, "cpu").name
    assert load_clip(f"local-dir:{copy}", "cpu").name == name
    _change_one_weight(copy / "open_clip_model.safetensors")
    other = load_clip(f"local-dir:{copy}", "cpu").name
    assert other != name
    assert other.rpartition("-")[0] == name.rpartition("-")[0] == "reference-clip"


def _change_one_weight(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    weights["logit_scale"] = weights["logit_scale"] + 1
    save_file(weights, path)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    for spec in (f"local-dir:{tmp_path / 'none'}", "ViT-B-32", "ViT-B-99/laion2b", ""):
        with pytest.raises(ModelError, match=r"embedding model") as caught:
            load_clip(spec, "cpu")
        assert "\n" not in str(caught.value)
        assert "local-dir:FOLDER" in str(caught.value) or "open_clip_config.json" in str(caught.value)


def test_broken_weights_and_no_weights(spec: str, tmp_path: Path) -> None:
    shutil.copytree(Path(spec.removeprefix("local-dir:")), tmp_path / "clip")
    weights = tmp_path / "clip" / "open_clip_model.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="embedding model cannot be loaded"):
        load_clip(f"local-dir:{tmp_path / 'clip'}", "cpu")
    weights.unlink()
    with pytest.raises(ModelError, match="embedding model cannot be loaded"):
        load_clip(f"local-dir:{tmp_path / 'clip'}", "cpu")
