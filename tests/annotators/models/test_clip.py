"""The CLIP back end: the same vectors as open_clip's own path, and one clear line when there is no model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ares.errors import ModelError
from ares_annotators.models import load_clip
from ares_annotators.models.clip import ClipEncoder
from ares_annotators.models.clip_pixels import make_pixel_preprocessor


@pytest.fixture(scope="module")
def spec(reference_models: Path) -> str:
    return f"local-dir:{reference_models / 'reference-clip'}"


@pytest.fixture(scope="module")
def encoder(spec: str) -> ClipEncoder:
    return load_clip(spec, "cpu")


def test_vectors_of_images_of_any_sizes_equal_those_of_open_clip_itself(
    spec: str, encoder: ClipEncoder
) -> None:
    import open_clip
    import torch
    from PIL import Image

    rng = np.random.default_rng(0)
    sizes = [(192, 192), (480, 640), (64, 48), (96, 96)]
    # More than one batch.
    images = [rng.integers(0, 256, (*sizes[number % 4], 3), dtype=np.uint8) for number in range(70)]
    model, _, preprocess = open_clip.create_model_and_transforms(spec)
    with torch.inference_mode():
        batch = torch.stack([preprocess(Image.fromarray(image)) for image in images])
        expected = model.eval().encode_image(batch, normalize=True).numpy()
    vectors = encoder.encode_images(images)
    assert vectors.shape == (70, encoder.dim) and np.abs(vectors - expected).max() < 1e-3


def test_images_that_are_resized_on_the_device_have_nearly_the_same_vectors_in_the_same_order(
    spec: str, demo_samples: Path
) -> None:
    encoder, images = load_clip(spec, "cpu"), list[Any]()
    with_video = cv2.VideoCapture(str(demo_samples / "video" / "videos" / "basketball_000_front.mp4"))
    for _ in range(5):
        small = np.asarray(with_video.read()[1], np.uint8)
        # Shapes that take turns: each vector must come back at the place of its image.
        images += [small, cv2.resize(small, (1280, 720), interpolation=cv2.INTER_CUBIC)]
    expected = encoder.encode_images(images)
    encoder._on_device = make_pixel_preprocessor(encoder._preprocess, "cpu")
    assert encoder._on_device is not None
    actual = encoder.encode_images(images)
    assert not np.array_equal(actual, expected)
    assert (np.sum(actual * expected, axis=1) > 0.9998).all()


def test_a_transform_with_an_unknown_step_stays_on_the_cpu() -> None:
    class Sharpen:
        def __call__(self, image: Any) -> Any:
            return image

    class Steps:
        transforms = (Sharpen(),)

    assert make_pixel_preprocessor(Steps(), "cpu") is None
    assert make_pixel_preprocessor(Sharpen(), "cpu") is None


def test_the_name_follows_the_weights_not_the_folder(spec: str, encoder: ClipEncoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    copy = tmp_path / "reference-clip"
    shutil.copytree(Path(spec.removeprefix("local-dir:")), copy)
    assert load_clip(f"local-dir:{copy}", "cpu").name == encoder.name
    weights = load_file(copy / "open_clip_model.safetensors")
    save_file({**weights, "logit_scale": weights["logit_scale"] + 1}, copy / "open_clip_model.safetensors")
    other = load_clip(f"local-dir:{copy}", "cpu").name
    assert other != encoder.name
    assert other.rpartition("-")[0] == encoder.name.rpartition("-")[0] == "reference-clip"


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
