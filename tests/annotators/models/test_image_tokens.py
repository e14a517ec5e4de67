"""Tokens of an image by family and size: those that the processors of transformers make, for any size."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from annotators.models import count_image_tokens, expected_image_tokens

transformers = pytest.importorskip("transformers")


def _qwen(patch: int, least: int, most: int) -> Callable[[int, int], int]:
    size = {"shortest_edge": least, "longest_edge": most}
    processor = transformers.Qwen2VLImageProcessor(patch_size=patch, size=size)
    # Four patches are one token, and two tokens mark the image.
    return lambda height, width: processor.get_number_of_image_patches(height, width, {}) // 4 + 2


def _internvl(height: int, width: int) -> int:
    options: dict[str, Any] = {
        "crop_to_patches": True,
        "patch_size": {"height": 448, "width": 448},
        "max_patches": 12,
    }
    processor = transformers.GotOcr2ImageProcessor()
    return int(processor.get_number_of_image_patches(height, width, options)) * 256 + 2


def _smolvlm(tile: int, tokens: int) -> Callable[[int, int], int]:
    from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

    sizes: dict[str, Any] = {"size": {"longest_edge": 4 * tile}, "max_image_size": {"longest_edge": tile}}
    processor = transformers.SmolVLMImageProcessor(**sizes)

    def count(height: int, width: int) -> int:
        _, rows, columns = processor.get_number_of_image_patches(height, width)
        # Marks are tokens of their own, and so are line breaks.
        marks = ("<fake>", "<image>", "<global>")
        text = get_image_prompt_string(rows, columns, tokens, *marks)  # type: ignore[no-untyped-call]
        return len(re.findall(r"<[^>]*>|\n+", text))

    return count


def _llava_next(height: int, width: int) -> int:
    # Patches of 14 pixels in tiles of 336; the token of the class is dropped again.
    processor: Any = object.__new__(transformers.LlavaNextProcessor)
    processor.image_processor = transformers.LlavaNextImageProcessor()
    processor.patch_size, processor.num_additional_image_tokens = 14, 1
    return int(processor._get_number_of_features(height, width, 336, 336)) - 1


PROCESSORS = {
    "Qwen/Qwen2.5-VL-7B-Instruct": _qwen(14, 3136, 12845056),
    "Qwen/Qwen3-VL-4B-Instruct@0f1e2d3c": _qwen(16, 65536, 16777216),
    "OpenGVLab/InternVL3-8B-hf": _internvl,
    "llava-hf/llava-v1.6-mistral-7b-hf": _llava_next,
    "llava-hf/llama3-llava-next-8b-hf": _llava_next,
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": _smolvlm(384, 81),
    "HuggingFaceTB/SmolVLM-256M-Instruct": _smolvlm(512, 64),
}


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("seed", [random.randrange(10**6)])
def test_the_table_says_what_transformers_makes(name: str, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    sizes = [(rng.randrange(40, 1025), rng.randrange(40, 1025)) for _ in range(200)]
    expected = [PROCESSORS[name](height, width) for height, width in sizes]
    assert [count_image_tokens(name, height, width) for height, width in sizes] == expected


def test_sizes_of_robot_cameras() -> None:
    counts = {
        name: count_image_tokens(name, 480, 640)
        for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-3-4b-it")
    }
    assert list(counts.values()) == [17 * 23 + 2, 15 * 20 + 2, 258]


def test_images_are_counted_as_they_are_sent() -> None:
    name = "Qwen/Qwen3-VL-4B-Instruct"
    assert expected_image_tokens(name, [(1000, 4000)]) == count_image_tokens(name, 256, 1024)
    assert expected_image_tokens(name, [(480, 640)] * 3) == 3 * 302


def test_a_model_that_the_table_does_not_have_is_unknown() -> None:
    assert count_image_tokens("lab/our-vlm", 480, 640) is None
    assert expected_image_tokens("lab/our-vlm", [(480, 640)] * 2) == 800
