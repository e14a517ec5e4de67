"""Loads a vision-language model of transformers from a folder or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from annotators.models.clip import weights_fingerprint
from annotators.models.device import select_device
from annotators.models.hub import announce_download, use_cache_when_offline
from annotators.models.huggingface.options import LocalModelOptions
from annotators.models.huggingface.vlm import HuggingfaceVlm
from ares.errors import ModelError
from ares.extras import missing_extra, needs_extra

# The value of --device that spreads a model over every GPU, and how transformers calls that.
ALL_GPUS = "all"
_SPREAD = "balanced"
_DEFAULTS = LocalModelOptions()


def load_huggingface(
    source: str, device: str, max_new_tokens: int, options: LocalModelOptions = _DEFAULTS
) -> HuggingfaceVlm:
    """Load a model from a folder or by its hub id.

    Args:
        source: The folder or the hub id.
        device: torch device, "all" to spread the model over every GPU, or "" for a GPU when there is one.
        max_new_tokens: Length limit of one reply.
        options: Number format and attention.

    Raises:
        ModelError: The model cannot be downloaded or read, or always thinks before it replies.
        RequestError: The extra `models`, or the one that its processor needs, is not installed.
    """
    spread = device == ALL_GPUS
    device = select_device("cuda" if spread else device)
    folder = Path(source)
    if not folder.is_dir():
        use_cache_when_offline()
        announce_download(source)
    model, processor = _read(source, _model_options(device, spread, options))
    if not hasattr(processor, "tokenizer") or not processor.chat_template:
        raise ModelError(
            "vision-language model has no chat template", f"hf:{source}; give an instruction-tuned model"
        )
    base_name = folder.resolve().name if folder.is_dir() else source
    name = f"{base_name}@{weights_fingerprint(model.state_dict())}"
    model.eval()
    if spread:
        _require_gpus_only(model, source)
    else:
        model.to(device)
    vlm = HuggingfaceVlm(model, processor, name, max_new_tokens)
    if vlm.always_thinks:
        raise ModelError(
            "vision-language model thinks before every reply, and its chat template cannot switch that off",
            f"hf:{source}; give its Instruct version",
        )
    return vlm


def _model_options(device: str, spread: bool, options: LocalModelOptions) -> dict[str, Any]:
    """What transformers is given beside the files."""
    dtype = "float32" if options.dtype == "auto" and device == "cpu" else options.dtype
    attention = {} if options.attention == "auto" else {"attn_implementation": options.attention}
    return {"dtype": dtype, **attention, **({"device_map": _SPREAD} if spread else {})}


def _require_gpus_only(model: Any, source: str) -> None:
    """Layers on the CPU or the disk would make every token take seconds."""
    # A model on one device has no map.
    device_map: dict[str, Any] = getattr(model, "hf_device_map", {})
    if {"cpu", "disk"} & {str(device) for device in device_map.values()}:
        raise ModelError(
            "vision-language model does not fit into the GPUs of this machine",
            f"hf:{source}; give a smaller one, or one behind a server",
        )


def _read(source: str, model_options: dict[str, Any]) -> tuple[Any, Any]:
    """The model and its processor."""
    with needs_extra("models"):
        from safetensors import SafetensorError
        from transformers import AutoModelForImageTextToText, AutoProcessor
        from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        processor = AutoProcessor.from_pretrained(source)  # type: ignore[no-untyped-call]
        return AutoModelForImageTextToText.from_pretrained(source, **model_options), processor
    except ImportError as error:
        raise _missing_library(source, error) from None
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            "vision-language model cannot be loaded", f"hf:{source}: {_error_text(error)}"
        ) from None


def _missing_library(source: str, error: ImportError) -> Exception:
    """Transformers names the library that a processor needs in a sentence of its own."""
    if "num2words" in str(error):
        return missing_extra("num2words", "smolvlm")
    return ModelError(
        "vision-language model needs a library that is not installed", f"hf:{source}: {_first_line(error)}"
    )


def _error_text(error: BaseException) -> str:
    return f"{_first_line(error)}; give a folder, or a hub id that is in the cache or can be downloaded"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]
