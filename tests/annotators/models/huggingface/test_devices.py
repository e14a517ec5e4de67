"""Devices, number formats and attention of a local model: what is chosen, and what is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import ModelError, RequestError
from ares.settings import Settings
from ares_annotators.base import Options
from ares_annotators.models import LocalModelOptions, VlmReply, VlmRequest, load_huggingface, load_vlm
from ares_annotators.models.clip import load_clip
from tests.annotators.models.huggingface.tiny_models import SENTENCE

QWEN = "tiny-Qwen3-VL"
Folder = Callable[[str], Path]
REQUEST = VlmRequest(images=[np.zeros((64, 64, 3), np.uint8)], prompt="Describe it.")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_another_number_format_answers_and_has_another_name(dtype: str, tiny_folder: Folder) -> None:
    options = Options(settings=Settings(), device="cpu")
    spec = f"hf:{tiny_folder(QWEN)}"
    usual = load_vlm(spec, options, 16)
    chosen = load_vlm(spec, replace(options, values={"dtype": dtype, "layout": "tiles"}), 16)
    assert chosen.name != usual.name and chosen.name.startswith(f"{QWEN}@")
    (reply,) = chosen.ask([REQUEST])
    assert isinstance(reply, VlmReply) and reply.text == SENTENCE


def test_an_attention_that_is_not_installed_is_one_line(tiny_folder: Folder) -> None:
    eager = load_huggingface(str(tiny_folder(QWEN)), "cpu", 16, LocalModelOptions(attention="eager"))
    assert eager._runtime.model.config._attn_implementation == "eager"
    with pytest.raises(ModelError) as caught:
        load_huggingface(str(tiny_folder(QWEN)), "cpu", 16, LocalModelOptions(attention="flash_attention_2"))
    assert "flash" in caught.value.detail.lower() and "\n" not in str(caught.value)


def test_all_gpus_need_a_gpu_and_a_model_that_can_be_spread(
    tiny_folder: Folder, reference_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(RequestError, match="torch sees no GPU here: --device cuda"):
        load_huggingface(str(tiny_folder(QWEN)), "all", 16)
    with pytest.raises(RequestError, match="this model runs on one device: --device all"):
        load_clip(f"local-dir:{reference_models / 'reference-clip'}", "all")


@pytest.fixture
def gpus_are_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the CPU stand in for GPUs: there are none where the tests run."""
    monkeypatch.setattr("ares_annotators.models.huggingface.vlm.select_device", lambda device: "cpu")
    monkeypatch.setattr("ares_annotators.models.huggingface.vlm._SPREAD", {"": "cpu"})


@pytest.mark.usefixtures("gpus_are_cpus")
def test_a_model_is_spread_by_accelerate(tiny_folder: Folder) -> None:
    vlm = load_huggingface(str(tiny_folder(QWEN)), "all", 16)
    (reply,) = vlm.ask([REQUEST])
    assert isinstance(reply, VlmReply) and reply.text == SENTENCE


@pytest.mark.usefixtures("gpus_are_cpus")
def test_a_model_that_would_leave_the_gpus_is_refused(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder(QWEN)
    monkeypatch.setattr(
        "transformers.Qwen3VLForConditionalGeneration.hf_device_map",
        {"model": 0, "lm_head": "cpu"},
        raising=False,
    )
    with pytest.raises(ModelError, match="does not fit into the GPUs of this machine"):
        load_huggingface(str(folder), "all", 16)


def test_a_wrong_number_format_is_refused_with_the_right_ones(tiny_folder: Folder) -> None:
    values: dict[str, Any] = {"dtype": "int3"}
    from ares_annotators.caption.annotator import CaptionOptions

    with pytest.raises(RequestError, match=r"wrong value of option 'dtype'.*float32, bfloat16 or float16"):
        Options(settings=Settings(), values=values).parse(CaptionOptions)
