"""Loads a vision tower of transformers from a folder or the hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from annotators.models.clip import weights_fingerprint
from annotators.models.device import select_device
from annotators.models.hub import announce_download, use_cache_when_offline
from annotators.models.vision_tower.encoder import VisionTower
from ares.errors import ModelError
from ares.extras import needs_extra

PREFIX = "hf:"


def load_vision_tower(spec: str, device: str = "") -> VisionTower:
    """Load the model of a spec.

    Args:
        spec: "hf:FOLDER" or "hf:ORG/NAME".
        device: torch device, or "" for a GPU when there is one.

    Raises:
        ModelError: The model cannot be downloaded or read, or has no vector for an image.
        RequestError: The extra `models` is not installed.
    """
    source = spec.removeprefix(PREFIX)
    device = select_device(device)
    if not Path(source).is_dir():
        use_cache_when_offline()
        announce_download(source)
    model, processor = _read(source)
    has_texts = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    tokenizer = _read_tokenizer(source) if has_texts else None
    name = f"{_slug(source)}-{weights_fingerprint(model.state_dict())}"
    model.eval().to(device)
    try:
        return VisionTower(model, processor, tokenizer, name, device)
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            "model has no vector for an image",
            f"{spec}: {_first_line(error)}; give a CLIP, SigLIP or DINO model",
        ) from None


def _read(source: str) -> tuple[Any, Any]:
    """The model and its image processor."""
    with needs_extra("models"):
        from safetensors import SafetensorError
        from transformers import AutoImageProcessor, AutoModel
        from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        processor = AutoImageProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
        return AutoModel.from_pretrained(source, dtype="float32"), processor
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _cannot_be_loaded(source, error) from None


def _read_tokenizer(source: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _cannot_be_loaded(source, error) from None


def _cannot_be_loaded(source: str, error: BaseException) -> ModelError:
    return ModelError(
        "embedding model cannot be loaded",
        f"{PREFIX}{source}: {_first_line(error)}; give a folder, or a hub id that is in the cache or can be downloaded",
    )


def _slug(source: str) -> str:
    name = Path(source).resolve().name if Path(source).is_dir() else source
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
