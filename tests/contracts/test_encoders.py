"""What every installed encoder promises: unit vectors of images and texts, float32, one row for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ares.registry import encoders
from ares.search import Encoder
from tests.annotators.models.tiny_towers import save_tower

# A model to load with each of ours; a guest's encoder is entered here by who tries it.
SPECS = {"clip": "local-dir:{models}/reference-clip", "hash": "hash:64", "hf": "hf:{tower}"}


@pytest.fixture(params=encoders.names())
def encoder(request: pytest.FixtureRequest, reference_models: Path, tmp_path: Path) -> Encoder:
    if request.param not in SPECS:
        pytest.skip(
            f"no model to try encoder {request.param} with: enter one in tests/contracts/test_encoders.py"
        )
    tower = save_tower("SigLIP", tmp_path / "tower") if request.param == "hf" else ""
    spec = SPECS[request.param].format(models=reference_models, tower=tower)
    loaded: Encoder = encoders.get(request.param)(spec, "cpu")
    return loaded


def test_images_of_any_sizes_become_unit_vectors(encoder: Encoder) -> None:
    random = np.random.default_rng(3)
    images = [random.integers(0, 256, shape, np.uint8) for shape in ((24, 32, 3), (64, 64, 3), (7, 90, 3))]
    vectors = encoder.encode_images(images)
    assert vectors.shape == (3, encoder.dim) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


def test_texts_become_unit_vectors_alike_in_any_batch(encoder: Encoder) -> None:
    texts = ["open the drawer", "", "push the green drawer closed " * 40, "打开抽屉"]
    together = encoder.encode_texts(texts)
    assert together.shape == (4, encoder.dim) and together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-4)
    apart = np.concatenate([encoder.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(together, apart, atol=1e-3)


def test_nothing_becomes_no_rows(encoder: Encoder) -> None:
    assert encoder.encode_texts([]).shape == (0, encoder.dim)
    assert encoder.encode_images([]).shape == (0, encoder.dim)
