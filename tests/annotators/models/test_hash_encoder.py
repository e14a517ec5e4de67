"""The encoder without a model: equal content has equal vectors, similar content similar ones."""

from __future__ import annotations

import numpy as np
import pytest

from ares.errors import ModelError
from ares_annotators.models import load_hash_encoder
from ares_annotators.models.doubles import HashEncoder


def test_texts_that_share_words_are_similar() -> None:
    close, same, similar, other = HashEncoder(64).encode_texts(
        ["close the drawer", "Close the drawer.", "close the green drawer", "lift a mug"]
    )
    assert np.array_equal(close, same)
    assert close @ similar > 0.7 > 0.5 > close @ other


def test_images_of_similar_colours_are_similar() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)
    brighter = image.copy()
    brighter[:12] //= 4
    other = np.full_like(image, 7)
    vectors = HashEncoder(64).encode_images([image, image.copy(), brighter, other])
    assert np.array_equal(vectors[0], vectors[1])
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[3] + 0.2


def test_vectors_are_the_same_on_every_machine() -> None:
    (vector,) = HashEncoder(8).encode_texts(["drawer"])
    assert vector == pytest.approx([-0.384, 0.387, 0.504, -0.51, -0.357, 0.117, 0.037, -0.212], abs=1e-3)


@pytest.mark.parametrize("spec", ["hash:", "hash:x", "hash:7", "hash:5000", "hash:-8"])
def test_a_wrong_spec_is_an_error(spec: str) -> None:
    with pytest.raises(ModelError, match="give hash:DIM"):
        load_hash_encoder(spec)
