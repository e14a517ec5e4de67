"""Tokens of an image by family and size: those that the processors of transformers make, for any size."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ares_annotators.models import count_image_tokens, estimate_image_tokens

# An image's tokens by its height and width.
Count = Callable[[int, int], int]


def _transformers() -> Any:
    """The library, which takes seconds to import: only the process that runs these tests does."""
    return pytest.importorskip("transformers")


def _qwen(patch: int, least: int, most: int) -> Count:
    size = {"shortest_edge": least, "longest_edge": most}
    processor = _transformers().Qwen2VLImageProcessor(patch_size=patch, size=size)
    # Four patches are one token, and two tokens mark the image.
    return lambda height, width: processor.get_number_of_image_patches(height, width, {}) // 4 + 2


def _internvl() -> Count:
    options: dict[str, Any] = {
        "crop_to_patches": True,
        "patch_size": {"height": 448, "width": 448},
        "max_patches": 12,
    }
    processor = _transformers().GotOcr2ImageProcessor()
    return lambda height, width: int(processor.get_number_of_image_patches(height, width, options)) * 256 + 2


PROCESSORS: dict[str, Callable[[], Count]] = {
    "Qwen/Qwen2.5-VL-7B-Instruct": partial(_qwen, 14, 3136, 12845056),
    "Qwen/Qwen3-VL-4B-Instruct@0f1e2d3c": partial(_qwen, 16, 65536, 16777216),
    "OpenGVLab/InternVL3-8B-hf": _internvl,
}


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("seed", [random.randrange(10**6)])
def test_the_table_says_what_transformers_makes(name: str, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    sizes = [(rng.randrange(40, 1025), rng.randrange(40, 1025)) for _ in range(200)]
    count = PROCESSORS[name]()
    expected = [count(height, width) for height, width in sizes]
    assert [count_image_tokens(name, height, width) for height, width in sizes] == expected


def test_sizes_of_robot_cameras() -> None:
    counts = {
        name: count_image_tokens(name, 480, 640)
        for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-3-4b-it")
    }
    assert list(counts.values()) == [17 * 23 + 2, 15 * 20 + 2, 258]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("HuggingFaceTB/SmolVLM2-2.2B-Instruct", 1083), ("HuggingFaceTB/SmolVLM-256M-Instruct", 862)],
)
def test_of_a_model_that_cuts_by_proportions_an_image_of_four_to_three_counts(name: str, tokens: int) -> None:
    """As the processor of transformers makes them of 640 by 480 pixels."""
    assert count_image_tokens(name, 480, 640) == tokens
    assert count_image_tokens("llava-hf/llava-v1.6-mistral-7b-hf", 480, 640) == 2340


def test_images_are_counted_as_they_are_sent() -> None:
    name = "Qwen/Qwen3-VL-4B-Instruct"
    assert estimate_image_tokens(name, [(1000, 4000)]) == count_image_tokens(name, 256, 1024)
    assert estimate_image_tokens(name, [(480, 640)] * 3) == 3 * 302


def test_a_model_that_the_table_does_not_have_is_unknown() -> None:
    assert count_image_tokens("lab/our-vlm", 480, 640) is None
    assert estimate_image_tokens("lab/our-vlm", [(480, 640)] * 2) == 800
