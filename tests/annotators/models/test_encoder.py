"""Vision towers of transformers as encoders: vectors, texts in the same space, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ares.errors import ModelError
from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.base import Options
from ares_annotators.models import load_vision_tower
from tests.annotators.models.tiny_towers import WITH_TEXTS, WITHOUT_TEXTS, save_tower
from tests.annotators.runs import annotate

Towers = Callable[[str], Path]


@pytest.fixture(scope="module")
def tower_folder(tmp_path_factory: pytest.TempPathFactory) -> Towers:
    root = tmp_path_factory.mktemp("towers")
    return cache(lambda architecture: save_tower(architecture, root / f"tiny-{architecture}"))


def _images(count: int) -> list[np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 255, (40 + 8 * index, 64, 3), np.uint8) for index in range(count)]


@pytest.mark.parametrize("architecture", [*WITH_TEXTS, *WITHOUT_TEXTS])
def test_images_and_texts_become_vectors_of_one_space_alike_in_any_batch(
    architecture: str, tower_folder: Towers
) -> None:
    tower = load_vision_tower(f"hf:{tower_folder(architecture)}", "cpu")
    assert tower.name.startswith(f"tiny-{architecture}-") and tower.dim == 32
    generator = np.random.default_rng(0)
    images = [generator.integers(0, 255, (40 + 8 * index, 64, 3), np.uint8) for index in range(3)]
    together = tower.encode_images(images)
    assert together.shape == (3, 32) and together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    apart = np.concatenate([tower.encode_images([image]) for image in images])
    assert np.allclose(together, apart, atol=1e-5)
    assert not np.allclose(together[0], together[1], atol=1e-3), "the image has no influence"
    texts = ["open the drawer", "close", "the " * 50]
    if architecture in WITHOUT_TEXTS:
        with pytest.raises(ModelError, match="embedding model has no texts: tiny-DINO"):
            tower.encode_texts(texts)
        return
    together = tower.encode_texts(texts)
    assert together.shape == (3, 32)
    apart = np.concatenate([tower.encode_texts([text]) for text in texts])
    assert np.allclose(together, apart, atol=1e-5)


def test_episodes_are_embedded_by_a_model_of_images_alone(tower_folder: Towers, video_ws: Workspace) -> None:
    options = Options(settings=Settings(), device="cpu", model=f"hf:{tower_folder('DINOv2')}")
    (report,) = annotate(video_ws.stores, ["embed"], options, quiet=True, limit=2)
    assert (report.kept, report.failed) == (2, 0)
    assert report.model.startswith("tiny-DINOv2-")


def test_half_precision_that_has_no_number_is_computed_again() -> None:
    import torch

    from ares_annotators.models.clip import encode_batches

    calls: list[int] = []

    def encode(batch: Sequence[float]) -> torch.Tensor:
        calls.append(len(batch))
        value = torch.inf if len(calls) == 2 else 1.0
        return torch.full((len(batch), 2), value)

    vectors = encode_batches([1.0] * 5, encode, 2, "cpu", 2)
    assert calls == [2, 2, 2, 1] and np.isfinite(vectors).all() and vectors.shape == (5, 2)


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="embedding model cannot be loaded") as caught:
        load_vision_tower(f"hf:{tmp_path}", "cpu")
    assert "\n" not in str(caught.value)
