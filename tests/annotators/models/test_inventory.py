"""`ares models` describes models by their files and names alone."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError
from ares.settings import Settings
from ares_annotators.models import describe_models, shared_language_model
from ares_annotators.models.model_families import find_family
from tests.workspaces import CommandResult

DEFAULTS = Settings()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection fails the test."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)


def put_in_hub_cache(cache: Path, hub_id: str, shapes: dict[str, list[int]], **config: Any) -> Path:
    """A model as the hub's client caches it, with a safetensors header and no weights behind it."""
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    folder = repository / "snapshots" / "0123abcd"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd")
    header = json.dumps({name: {"shape": shape, "dtype": "BF16"} for name, shape in shapes.items()}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_default_captioner_and_judge_have_other_language_models() -> None:
    _, captioner, judge = describe_models(DEFAULTS)
    assert captioner.language_model and judge.language_model
    assert captioner.language_model != judge.language_model
    assert not shared_language_model([captioner, judge])
    assert {captioner.licence, judge.licence} == {"Apache-2.0"}


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
    settings = Settings(judge_model="openai:our-vlm@http://127.0.0.1:9/v1", model_families=str(file))
    assert describe_models(settings)[2].language_model == "qwen3"
    assert shared_language_model(describe_models(settings)) == "qwen"


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


def test_a_model_in_a_folder_is_counted_in_its_files(reference_models: Path) -> None:
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    captioner = f"hf:{reference_models / 'reference-captioner'}"
    settings = Settings(embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")
    for model in describe_models(settings):
        assert model.state == "here" and model.parameters and model.disk_bytes and model.memory_bytes
        assert model.parameters < model.disk_bytes <= 5 * model.parameters
    assert describe_models(settings)[1].language_model == "llama"


def test_a_model_in_the_cache_of_the_hub_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    text_config = {"text_config": {"model_type": "gemma4_text"}}
    folder = put_in_hub_cache(tmp_path, "lab/our-judge", {"a": [3, 5], "b": [7]}, **text_config)
    (folder / "README.md").write_text("---\nlibrary_name: transformers\nlicense: mit\n---\n# ours\n")
    judge = describe_models(Settings(judge_model="hf:lab/our-judge"))[2]
    assert (judge.state, judge.parameters, judge.licence) == ("here", 22, "mit")
    assert (judge.language_model, judge.location) == ("gemma", str(folder))
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00002.safetensors"}}')
    assert describe_models(Settings(judge_model="hf:lab/our-judge"))[2].state == "to be fetched"


def test_the_command_prints_a_table_and_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ares: Callable[..., CommandResult]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    table = run_ares("models")
    assert table.status == 0
    assert all(cell in table.out for cell in ("hf:google/gemma-4-E4B-it", "to be fetched", "Apache-2.0"))
    monkeypatch.setenv("ARES_JUDGE_MODEL", "hf:OpenGVLab/InternVL3-8B-hf")
    monkeypatch.setenv("ARES_EMBED_MODEL", f"local-dir:{tmp_path / 'nowhere'}")
    printed = run_ares("models", "--json")
    assert (printed.status, printed.json["shared_language_model"]) == (1, "qwen")
    states = [model["state"] for model in printed.json["models"]]
    assert states == ["missing", "to be fetched", "to be fetched"]
