"""A stored text tower gives the vectors of open_clip itself, for every architecture that it accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.errors import ModelError
from ares_annotators.models import load_clip, open_text_encoder
from tests.thinning import some_by_day

_TEXTS = [
    "",
    "open the drawer",
    "a robot arm pushes the green drawer closed, then it isn't moving for 12 seconds!",
    "pick up the red cube and put it on the blue plate " * 20,
    "打开抽屉 déjà vu 🤖 ½",
]
_TEXT_CONFIG = {"context_length": 32, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 3}
_VISION_CONFIG = {"image_size": 32, "patch_size": 16, "width": 64, "layers": 1, "head_width": 32}

MakeClip = Callable[..., str]


def _write_clip(
    folder: Path, text: dict[str, Any] | None = None, dtype: str = "float32", **config: Any
) -> str:
    import open_clip
    import torch
    from safetensors.torch import save_file

    model_config = {
        "embed_dim": 48,
        "vision_cfg": _VISION_CONFIG,
        "text_cfg": {**_TEXT_CONFIG, **(text or {})},
        **config,
    }
    folder.mkdir()
    document = {"model_cfg": model_config, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(document))
    torch.manual_seed(7)
    model, _, _ = open_clip.create_model_and_transforms(f"local-dir:{folder}", load_weights=False)
    weights = {
        name: (tensor + 0.2 * torch.randn_like(tensor)).to(getattr(torch, dtype)).contiguous()
        for name, tensor in model.state_dict().items()
    }
    save_file(weights, folder / "open_clip_model.safetensors")
    return f"local-dir:{folder}"


@pytest.fixture
def make_clip(tmp_path: Path) -> MakeClip:
    """Writes a small open_clip model of random weights, large enough that no layer is without effect."""
    return lambda *arguments, **fields: _write_clip(
        tmp_path / f"clip-{len(list(tmp_path.iterdir()))}", *arguments, **fields
    )


@pytest.fixture(scope="module")
def stored_tower(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a stored text tower."""
    folder = tmp_path_factory.mktemp("tower")
    assert load_clip(_write_clip(folder / "clip"), "cpu").save_text_encoder(folder / "text.safetensors")
    return (folder / "text.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "config"),
    some_by_day(
        [
            ({}, {}),
            ({}, {"quick_gelu": True}),
            ({}, {"custom_text": True}),
            ({"no_causal_mask": True}, {"custom_text": True}),
            ({"no_causal_mask": True, "pool_type": "last"}, {"custom_text": True}),
            ({"pool_type": "last"}, {}),
            ({"pool_type": "first", "no_causal_mask": True}, {}),
            ({"pool_type": "eos", "eos_id": 49407}, {}),
            ({"pool_type": "eos", "eos_id": 49407}, {"custom_text": True}),
            ({"proj_bias": True}, {"custom_text": True}),
            ({"proj_type": "none", "width": 48}, {"custom_text": True}),
            ({"ls_init_value": 0.5, "mlp_ratio": 3.0}, {}),
            ({"act_kwargs": {"approximate": "tanh"}, "norm_kwargs": {"eps": 1e-3}}, {"custom_text": True}),
            ({"tokenizer_kwargs": {"clean": "canonicalize"}}, {}),
            ({"tokenizer_kwargs": {"clean": "whitespace"}}, {}),
        ],
        2,
        rows=True,
    ),
)
def test_vectors_equal_those_of_open_clip(
    make_clip: MakeClip, tmp_path: Path, text: dict[str, Any], config: dict[str, Any]
) -> None:
    encoder = load_clip(make_clip(text, **config), "cpu")
    assert encoder.save_text_encoder(tmp_path / "text.safetensors")
    stored = open_text_encoder(tmp_path / "text.safetensors").encode_texts(_TEXTS)
    assert stored.shape == (len(_TEXTS), encoder.dim) and stored.dtype == np.float32
    np.testing.assert_allclose(stored, encoder.encode_texts(_TEXTS), atol=1e-4)
    apart = np.abs(stored - stored[:1]).max(axis=1)
    assert (apart[1:] > 1e-2).all(), "vectors that hardly differ prove nothing"


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ({"embed_cls": True}, {"custom_text": True}),
        ({"qk_norm": True}, {}),
        ({"scale_fc": True}, {"custom_text": True}),
        ({"tokenizer_kwargs": {"reduction_mask": "simple"}}, {}),
    ],
)
def test_other_architectures_are_left_to_the_whole_model(
    make_clip: MakeClip, tmp_path: Path, text: dict[str, Any], config: dict[str, Any]
) -> None:
    encoder = load_clip(make_clip(text, **config), "cpu")
    assert not encoder.save_text_encoder(tmp_path / "text.safetensors")
    assert not (tmp_path / "text.safetensors").exists()


def test_a_model_with_other_vectors_than_its_parts_say_is_left_to_the_whole_model(
    make_clip: MakeClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_clip(make_clip(), "cpu")
    model = encoder._model
    monkeypatch.setattr(
        model,
        "encode_text",
        lambda tokens, normalize: model.__class__.encode_text(model, tokens.flip(0), normalize=normalize),
    )
    assert not encoder.save_text_encoder(tmp_path / "text.safetensors")


@pytest.mark.slow
def test_half_precision_weights_take_half_the_room(make_clip: MakeClip, tmp_path: Path) -> None:
    sizes = {}
    for dtype in ("float16", "float32"):
        encoder = load_clip(make_clip(dtype=dtype), "cpu")
        assert encoder.save_text_encoder(tmp_path / dtype)
        np.testing.assert_allclose(
            open_text_encoder(tmp_path / dtype).encode_texts(_TEXTS), encoder.encode_texts(_TEXTS), atol=1e-4
        )
        sizes[dtype] = (tmp_path / dtype).stat().st_size
    assert sizes["float32"] - sizes["float16"] > 49408 * 64 * 1.9


@pytest.mark.parametrize("damage", ["cut", "header", "empty", "version"])
def test_a_damaged_file_is_an_error(stored_tower: bytes, tmp_path: Path, damage: str) -> None:
    path, content = tmp_path / "text.safetensors", stored_tower
    damaged = {
        "cut": content[:-100],
        "header": content[:8] + b"x" * 50 + content[58:],
        "empty": b"",
        "version": content.replace(b'\\"format\\": 1', b'\\"format\\": 0', 1),
    }[damage]
    assert damaged != content
    path.write_bytes(damaged)
    with pytest.raises(ModelError, match="stored text encoder"):
        open_text_encoder(path)
