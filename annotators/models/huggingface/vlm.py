"""A vision-language model of transformers: its options, how it is loaded, and answers in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from ares.errors import ModelError, shorten
from ares.imports import missing_extra, needs_extra
from ares_annotators.models.base import (
    IMAGE_SETTINGS,
    Capability,
    VlmFailure,
    VlmReply,
    VlmRequest,
    model_family,
)
from ares_annotators.models.clip import hash_model_weights, select_device
from ares_annotators.models.huggingface.generation import (
    ChatEncoder,
    LoadedTransformer,
    choose_replies,
    generate_replies,
)
from ares_annotators.models.model_info import prepare_hub
from ares_annotators.options import AnnotatorOptions

if TYPE_CHECKING:
    from ares.episode import Json


Answer = VlmReply | VlmFailure
AnswerBatch = Callable[[Sequence[VlmRequest]], Sequence[Answer]]

_BATCH_SIZE = 8
_CAPABILITIES: frozenset[Capability] = frozenset({"schema", "choices", "probabilities", "samples", "seed"})
# The value of --device that spreads a model over every GPU, and how transformers calls that.
ALL_GPUS = "all"
_SPREAD = "balanced"


def ask_in_batches(
    requests: Sequence[VlmRequest], answer: AnswerBatch, most_rows: int, name: str
) -> Sequence[Answer]:
    """One reply or failure per request, in order.

    A batch that does not fit into memory is halved, and one with a request that cannot be encoded as well.

    Args:
        requests: The requests.
        answer: Answers a batch.
        most_rows: Most replies of one batch.
        name: Name of the model for errors.
    """
    answers: dict[int, Answer] = {}
    for indices in _compatible_batches(requests, most_rows):
        batch = [requests[index] for index in indices]
        answers |= dict(zip(indices, _ask_batch(batch, answer, name), strict=True))
    return [answers[index] for index in range(len(requests))]


def _ask_batch(requests: Sequence[VlmRequest], answer: AnswerBatch, name: str) -> Sequence[Answer]:
    import torch

    try:
        return answer(requests)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        error = ModelError(
            "memory of the device is full", f"one request to {name}; show fewer or smaller frames"
        )
    except (ModelError, ValueError) as cause:
        error = cause if isinstance(cause, ModelError) else _refused_request_error(cause, name)
    if len(requests) == 1:
        return [VlmFailure(error)]
    middle = len(requests) // 2
    halves = (requests[:middle], requests[middle:])
    return [reply for half in halves for reply in _ask_batch(half, answer, name)]


def _refused_request_error(cause: ValueError, name: str) -> ModelError:
    return ModelError(
        "model cannot take a request", f"{name}: {shorten((str(cause).splitlines() or [''])[0])}"
    )


def _compatible_batches(requests: Sequence[VlmRequest], most_rows: int) -> Iterator[Sequence[int]]:
    """Indices of requests that can be answered together; those of one batch are of similar length."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        groups[_request_kind(request)].append(index)
    for indices in groups.values():
        ordered = sorted(indices, key=lambda index: _request_length(requests[index]))
        count = max(1, most_rows // requests[indices[0]].samples)
        for start in range(0, len(ordered), count):
            yield ordered[start : start + count]


def _request_kind(request: VlmRequest) -> object:
    if request.choices:
        return "choices", bool(request.images), request.clip
    return "text", bool(request.images), request.clip, request.max_tokens, request.samples


def _request_length(request: VlmRequest) -> tuple[int, int]:
    return sum(image.size for image in request.images), len(request.prompt)


class HuggingfaceVlm:
    """A transformers image-text-to-text model; fills the protocol `ares_annotators.models.base.Vlm`.

    Schemas are held token by token. A choice is the most probable one, and nothing is written for it. A sampled reply
    depends on its seed and not on its batch, as far as the arithmetic of the device allows it.

    Args:
        model: The model, on its device and in eval mode.
        processor: Its processor.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Length limit of one reply.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    settings: Mapping[str, Json] = IMAGE_SETTINGS

    def __init__(self, model: Any, processor: Any, name: str, max_new_tokens: int) -> None:
        chats = ChatEncoder(processor)
        self._runtime = LoadedTransformer(
            model=model,
            tokenizer=processor.tokenizer,
            chats=chats,
            name=name,
            max_new_tokens=max_new_tokens,
        )
        self.name, self.family = name, model_family(str(model.config.model_type))
        clip: frozenset[Capability] = frozenset({"clip"} if chats.takes_clips else ())
        no_prompt: frozenset[Capability] = frozenset(() if chats.takes_prompts else {"captions_only"})
        self.capabilities = _CAPABILITIES | clip | no_prompt

    @property
    def always_thinks(self) -> bool:
        """Whether every reply begins with a thought, which cannot be switched off."""
        return self._runtime.chats.always_thinks

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply or failure per request; a reply that reaches the length limit is an error, not half an answer."""
        return ask_in_batches(requests, self._answer, _BATCH_SIZE, self.name)

    def _answer(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        if requests[0].choices:
            return choose_replies(self._runtime, requests)
        return generate_replies(self._runtime, requests)


NumberFormat = Literal["auto", "float32", "bfloat16", "float16"]
Attention = Literal["auto", "eager", "sdpa", "flash_attention_2"]


class LocalModelOptions(AnnotatorOptions):
    """How a model of transformers computes; a model behind a server takes no notice.

    The number format is part of the fingerprint of the weights, and so of the name of the model.
    """

    not_in_producer: ClassVar[frozenset[str]] = frozenset({"dtype", "attention"})

    dtype: NumberFormat = Field(
        default="auto",
        description="numbers of a local model: auto, float32, bfloat16 or float16 (auto: float32 on a CPU, else "
        "those of its files)",
    )
    attention: Attention = Field(
        default="auto",
        description="attention of a local model: auto, eager, sdpa or flash_attention_2",
    )


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
    folder = Path(source)
    if not folder.is_dir():
        prepare_hub(f"hf:{source}", source)
    spread = device == ALL_GPUS
    device = select_device("cuda" if spread else device)
    model, processor = _load_model_and_processor(source, _model_options(device, spread, options))
    if not hasattr(processor, "tokenizer") or not processor.chat_template:
        raise ModelError(
            "vision-language model has no chat template", f"hf:{source}; give an instruction-tuned model"
        )
    base_name = folder.resolve().name if folder.is_dir() else source
    name = f"{base_name}@{hash_model_weights(model.state_dict())}"
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


def _load_model_and_processor(source: str, model_options: dict[str, Any]) -> tuple[Any, Any]:
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
    """Transformers names the library that a processor needs in a separate sentence."""
    if "num2words" in str(error):
        return missing_extra("num2words", "smolvlm")
    return ModelError(
        "vision-language model needs a library that is not installed", f"hf:{source}: {_first_line(error)}"
    )


def _error_text(error: BaseException) -> str:
    return f"{_first_line(error)}; give a folder, or a hub id that is in the cache or can be downloaded"


def _first_line(error: BaseException) -> str:
    return shorten((str(error).strip().splitlines() or [type(error).__name__])[0])
