"""What models are and need is known by their files and names alone."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError
from ares.jobs import WorkerNeeds
from ares.settings import Settings
from ares_annotators.models import estimate_worker_resources
from ares_annotators.models.model_families import find_family
from ares_annotators.models.model_info import find_model_files

DEFAULTS = Settings()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection fails the test."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)


def put_in_hub_cache(cache: Path, hub_id: str, shapes: dict[str, list[int]]) -> Path:
    """A model as the hub's client caches it, with a safetensors header and no weights behind it."""
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    folder = repository / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd")
    header = json.dumps({name: {"shape": shape, "dtype": "BF16"} for name, shape in shapes.items()}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def test_the_default_captioner_and_judge_have_other_language_models() -> None:
    captioner, judge = (find_family(spec) for spec in (DEFAULTS.caption_model, DEFAULTS.judge_model))
    assert captioner.language_model and judge.language_model
    assert captioner.language_model != judge.language_model


@pytest.mark.parametrize(
    ("name", "family", "language_model"),
    [
        ("Qwen/Qwen3-VL-4B-Instruct", "qwen", "qwen3"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen", "qwen2.5"),
        ("OpenGVLab/InternVL3-8B-hf@0f1e2d3c", "internvl", "qwen2.5"),
        ("OpenGVLab/InternVL3-9B", "internvl", "internlm3"),
        ("OpenGVLab/InternVL3_5-8B-HF", "internvl", "qwen3"),
        ("nvidia/Cosmos-Reason2-8B", "cosmos", "qwen3"),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava", "qwen2"),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", "smolvlm", "smollm2"),
        ("/models/llava-v1.6-mistral-7b-hf/", "llava", "mistral"),
        ("google/gemma-4-E4B-it", "gemma", "gemma4"),
        ("gpt-5-mini", "gpt", "gpt"),
        ("reference-captioner@b1a2671c", "reference", ""),
    ],
)
def test_a_family_is_known_by_the_name(name: str, family: str, language_model: str) -> None:
    assert find_family(name) == (family, language_model)


def test_a_file_of_the_user_comes_before_the_table(tmp_path: Path) -> None:
    file = tmp_path / "families.yaml"
    file.write_text('families: [{pattern: "our-", family: ours, language_model: qwen3}]')
    assert find_family("lab/our-vlm", str(file)) == ("ours", "qwen3")
    assert find_family("google/gemma-4-E4B-it", str(file)).language_model == "gemma4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("families: [{pattern: '(', family: a, language_model: b}]", "no regular expression"),
        ("families: [{pattern: a, family: a}]", "families.0.language_model: Field required"),
        ("families: [", "no YAML"),
        ("[]", "Input should be"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "families.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(RequestError, match=re.escape(message)) as error:
        find_family("x", str(file))
    assert str(file) in str(error.value)


def test_a_worker_needs_memory_for_the_weights_that_its_files_or_the_table_name(
    reference_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    put_in_hub_cache(tmp_path, "lab/our-judge", {"a": [30_000, 5_000], "b": [7]})

    def weights(spec: str) -> float:
        needs = estimate_worker_resources(spec)
        assert needs.gpus == 1.0
        return (needs.memory_bytes - estimate_worker_resources("hf:lab/not-known").memory_bytes) / 4.8

    clip = reference_models / "reference-clip"
    size = sum(path.stat().st_size for path in clip.glob("*.safetensors"))
    assert (
        weights(f"local-dir:{clip}") == weights(f"clip:local-dir:{clip}") == pytest.approx(size / 2, rel=0.01)
    )
    assert weights("hf:lab/our-judge") == pytest.approx(150_000_007)
    assert weights("hf:google/gemma-4-E4B-it") == pytest.approx(8.0e9)
    assert weights("ViT-B-32/laion2b_s34b_b79k") == pytest.approx(0.151e9)
    assert estimate_worker_resources("openai:x@http://127.0.0.1:9/v1") == WorkerNeeds()


def test_a_model_of_which_a_part_is_missing_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder = put_in_hub_cache(tmp_path, "lab/our-judge", {"a": [3, 5]})
    assert find_model_files("hf:lab/our-judge") is not None
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00002.safetensors"}}')
    assert find_model_files("hf:lab/our-judge") is None
