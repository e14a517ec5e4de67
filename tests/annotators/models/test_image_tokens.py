"""Tokens of an image by family and size: those that the processors of transformers make, for any size."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from annotators.models import count_image_tokens, estimate_image_tokens

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


def _smolvlm(tile: int, tokens: int) -> Count:
    processors = _transformers()
    from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

    sizes: dict[str, Any] = {"size": {"longest_edge": 4 * tile}, "max_image_size": {"longest_edge": tile}}
    processor = processors.SmolVLMImageProcessor(**sizes)

    def count(height: int, width: int) -> int:
        _, rows, columns = processor.get_number_of_image_patches(height, width)
        # Marks are tokens of their own, and so are line breaks.
        marks = ("<fake>", "<image>", "<global>")
        text = get_image_prompt_string(rows, columns, tokens, *marks)  # type: ignore[no-untyped-call]
        return len(re.findall(r"<[^>]*>|\n+", text))

    return count


def _llava_next() -> Count:
    # Patches of 14 pixels in tiles of 336; the token of the class is dropped again.
    processors = _transformers()
    processor: Any = object.__new__(processors.LlavaNextProcessor)
    processor.image_processor = processors.LlavaNextImageProcessor()
    processor.patch_size, processor.num_additional_image_tokens = 14, 1
    return lambda height, width: int(processor._get_number_of_features(height, width, 336, 336)) - 1


PROCESSORS: dict[str, Callable[[], Count]] = {
    "Qwen/Qwen2.5-VL-7B-Instruct": partial(_qwen, 14, 3136, 12845056),
    "Qwen/Qwen3-VL-4B-Instruct@0f1e2d3c": partial(_qwen, 16, 65536, 16777216),
    "OpenGVLab/InternVL3-8B-hf": _internvl,
    "llava-hf/llava-v1.6-mistral-7b-hf": _llava_next,
    "llava-hf/llama3-llava-next-8b-hf": _llava_next,
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": partial(_smolvlm, 384, 81),
    "HuggingFaceTB/SmolVLM-256M-Instruct": partial(_smolvlm, 512, 64),
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


def test_images_are_counted_as_they_are_sent() -> None:
    name = "Qwen/Qwen3-VL-4B-Instruct"
    assert estimate_image_tokens(name, [(1000, 4000)]) == count_image_tokens(name, 256, 1024)
    assert estimate_image_tokens(name, [(480, 640)] * 3) == 3 * 302


def test_a_model_that_the_table_does_not_have_is_unknown() -> None:
    assert count_image_tokens("lab/our-vlm", 480, 640) is None
    assert estimate_image_tokens("lab/our-vlm", [(480, 640)] * 2) == 800
