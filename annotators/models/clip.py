"""Image and text vectors by an open_clip model, and its text tower for use without it."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.models.model_info import open_clip_hub_id, prepare_hub
from annotators.models.text_tower import (
    Activation,
    Cleaning,
    StoredTextEncoder,
    StoredTextTower,
    TextTowerConfig,
    TokenizerConfig,
    find_unknown_weights,
    write_text_tower,
)
from ares.errors import ModelError, RequestError, shorten
from ares.imports import needs_extra

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


_ON_TENSORS = ("Resize", "CenterCrop", "Normalize")
# On tensors these are a division by 255, and nothing: frames are RGB.
_BEFORE_TENSORS = ("ToTensor", "MaybeToTensor", "MaybeConvertMode", "_convert_to_rgb")

Pixels = Callable[[Sequence["NDArray[np.uint8]"]], "torch.Tensor"]


def make_pixel_preprocessor(transform: Any, device: str) -> Pixels | None:
    """A function from N RGB images, each (H, W, 3) uint8, to the pixels (N, 3, S, S) of the model on its device.

    Args:
        transform: open_clip's transform for one image.
        device: torch device.

    Returns:
        The function, or None where the transform has a step that is not known here.
    """
    steps = list(getattr(transform, "transforms", ()))
    names = [getattr(step, "__name__", type(step).__name__) for step in steps]
    if not steps or not set(names) <= {*_ON_TENSORS, *_BEFORE_TENSORS}:
        return None
    tensor_steps = [step for step, name in zip(steps, names, strict=True) if name in _ON_TENSORS]
    return lambda images: _preprocess_images(images, tensor_steps, device)


def _preprocess_images(
    images: Sequence[NDArray[np.uint8]], steps: Sequence[Any], device: str
) -> torch.Tensor:
    """Images of equal shape go through each step together."""
    import numpy as np
    import torch

    indices_by_shape: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, image in enumerate(images):
        indices_by_shape[image.shape].append(index)
    prepared: dict[int, torch.Tensor] = {}
    for indices in indices_by_shape.values():
        frames = torch.from_numpy(np.stack([images[index] for index in indices])).to(device)
        pixels = frames.permute(0, 3, 1, 2).float() / 255
        for step in steps:
            # Bicubic values beyond black and white are cut, as Pillow does.
            pixels = step(pixels).clamp(0, 1) if type(step).__name__ == "Resize" else step(pixels)
        prepared |= dict(zip(indices, pixels, strict=True))
    return torch.stack([prepared[index] for index in range(len(images))])


_CLEANINGS: tuple[Cleaning, ...] = ("lower", "canonicalize", "whitespace")
_POOLINGS = {"argmax", "eos", "first", "last"}
# Largest difference in any dimension of the unit vectors of these texts.
_TOLERANCE = 1e-4
_PROBES = (
    "",
    "open the drawer",
    "The robot's gripper doesn't hold 2 mugs, it dropped 12345 of them!",
    "put the red block on top of the green block and then close the drawer with the other arm " * 6,
    "打开抽屉，然后拿起红色的杯子",
    "déjà vu: naïve café — “schön”, ﬁne ＷＩＤＥ ½ ٣ 🤖👍🏽",
    "&lt;b&gt; a &amp; b _under_score_ <end_of_text> tab\tnew\nline",
)


def extract_text_tower(model: Any, tokenizer: Any, name: str) -> StoredTextTower | None:
    """The text tower of an open_clip model, or None where it is of an architecture that is not known here.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        name: Portable name with the fingerprint of the weights.
    """
    try:
        # CLIP keeps the parts of its tower in the model itself, CustomTextCLIP in `text`.
        tower = getattr(model, "text", model)
        weights = _text_tower_weights(tower)
        config = _tower_config(model, tower)
        tokenizer_config, document = read_tokenizer_parts(tokenizer)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if find_unknown_weights(list(weights), config.layers):
        return None
    return StoredTextTower(
        model=name,
        tower=config,
        tokenizer=tokenizer_config,
        tokenizer_document=document,
        weights=weights,
    )


def gives_equal_vectors(
    written: StoredTextEncoder, encode_texts: Callable[[Sequence[str]], NDArray[np.float32]]
) -> bool:
    """Whether a stored encoder encodes some texts of many kinds as its model does, to 1e-4 in any dimension.

    Args:
        written: The stored encoder.
        encode_texts: Unit vectors (N, D) of N texts by the model in single precision.
    """
    import numpy as np

    vectors, expected = written.encode_texts(_PROBES), encode_texts(_PROBES)
    return vectors.shape == expected.shape and bool(np.abs(vectors - expected).max() < _TOLERANCE)


def _text_tower_weights(tower: Any) -> dict[str, NDArray[np.float32]]:
    return {
        name: tensor.detach().float().cpu().contiguous().numpy()
        for name, tensor in tower.state_dict().items()
        if not name.startswith("visual.") and name not in {"logit_scale", "logit_bias"}
    }


def _tower_config(model: Any, tower: Any) -> TextTowerConfig:
    blocks = tower.transformer.resblocks
    pooling = model.text_pool_type if tower is model else tower.pool_type
    if pooling not in _POOLINGS or getattr(tower, "use_pad_mask", False):
        raise ValueError(pooling)
    return TextTowerConfig(
        layers=len(blocks),
        heads=int(blocks[0].attn.num_heads),
        causal=tower.attn_mask is not None,
        pooling=pooling,
        eos_id=int(model.text_eos_id if tower is model else tower.eos_id),
        activation=_activation_name(blocks[0].mlp.gelu),
        epsilon=float(tower.ln_final.eps),
    )


def _activation_name(module: Any) -> Activation:
    name = type(module).__name__
    if name == "QuickGELU":
        return "quick_gelu"
    activations: Mapping[str, Activation] = {"none": "gelu", "tanh": "gelu_tanh"}
    if name != "GELU":
        raise ValueError(name)
    return activations[module.approximate]


def read_tokenizer_parts(tokenizer: Any) -> tuple[TokenizerConfig, str]:
    """Configuration and JSON of a tokenizer. Raises ValueError for one of another kind."""
    name = type(tokenizer).__name__
    if name == "SimpleTokenizer" and tokenizer.reduction_fn is None:
        return _clip_tokenizer(tokenizer)
    if name == "HFTokenizer" and not tokenizer.tokenizer_mode:
        removed = tokenizer.tokenizer.sep_token_id if tokenizer.strip_sep_token else None
        return _hub_tokenizer(tokenizer, _cleaning_name(tokenizer.clean_fn), removed)
    if name == "SigLipTokenizer":
        return _hub_tokenizer(tokenizer, "canonicalize", None)
    raise ValueError(name)


def _cleaning_name(clean_function: Any) -> Cleaning:
    from open_clip.tokenizer import get_clean_fn

    return next(name for name in _CLEANINGS if get_clean_fn(name) is clean_function)


def _clip_tokenizer(tokenizer: Any) -> tuple[TokenizerConfig, str]:
    from tokenizers import Tokenizer, models, pre_tokenizers

    special_ids = {tokenizer.decoder[token]: int(token) for token in tokenizer.all_special_ids}
    subwords = Tokenizer(
        models.BPE(vocab=tokenizer.encoder, merges=list(tokenizer.bpe_ranks), end_of_word_suffix="</w>")
    )
    subwords.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    config = TokenizerConfig(
        cleaning=_cleaning_name(tokenizer.clean_fn),
        context_length=int(tokenizer.context_length),
        special_ids=special_ids,
    )
    return config, subwords.to_str()


def _hub_tokenizer(tokenizer: Any, cleaning: Cleaning, removed_id: int | None) -> tuple[TokenizerConfig, str]:
    from tokenizers import Tokenizer

    inner = tokenizer.tokenizer
    backend = Tokenizer.from_str(inner.backend_tokenizer.to_str())
    length = int(tokenizer.context_length)
    backend.enable_truncation(max_length=length, direction=inner.truncation_side)
    backend.enable_padding(
        length=length, pad_id=inner.pad_token_id, pad_token=inner.pad_token, direction=inner.padding_side
    )
    config = TokenizerConfig(cleaning=cleaning, context_length=length, removed_id=removed_id)
    return config, backend.to_str()


def select_device(device: str) -> str:
    """A torch device that is on this machine.

    Args:
        device: For example "cpu", "cuda" or "cuda:1"; "" for a GPU when there is one.

    Raises:
        RequestError: There is no such device, on this machine or at all, or it is "all", or torch is not installed.
    """
    with needs_extra("models"):
        import torch

    if device == "all":
        raise RequestError(
            "this model runs on one device", f"--device {device}; give cpu, cuda or cuda:NUMBER"
        )
    if not device:
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise RequestError("torch sees no GPU here", f"--device {device}; give --device cpu, or none")
        if number.isdigit() and int(number) >= count:
            raise RequestError(f"there is no GPU {number}", f"they are numbered from 0 to {count - 1}")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        cause = str(error).splitlines()[0][:200]
        raise RequestError(f"no device {device!r}", f"{cause}; give cpu, cuda or cuda:NUMBER") from None
    return device


def encode_batches(
    items: Sequence[Any],
    encode_batch: Callable[[Sequence[Any]], torch.Tensor],
    batch_size: int,
    device: str,
    dim: int,
) -> NDArray[np.float32]:
    """(N, D) vectors of N items, in batches; with half precision on a GPU.

    Where half precision has no number for a value, the batch is encoded again with single precision.

    Args:
        items: Images or texts.
        encode_batch: Vectors (M, D) of M items.
        batch_size: Most items of a batch.
        device: torch device.
        dim: Length D of the vectors, for no items.
    """
    import numpy as np
    import torch

    if not len(items):
        return np.empty((0, dim), np.float32)
    vectors = []
    with torch.inference_mode():
        for start in range(0, len(items), batch_size):
            batch = items[start : start + batch_size]
            with torch.autocast("cuda", torch.float16, enabled=device.startswith("cuda")):
                encoded = encode_batch(batch).float()
            vectors.append(encoded if bool(torch.isfinite(encoded).all()) else encode_batch(batch).float())
        joined: NDArray[np.float32] = torch.cat(vectors).cpu().numpy()
    return joined


_BATCH_SIZE = 64
_LOCAL_PREFIX = "local-dir:"
_HUB_PREFIX = "hf-hub:"


class ClipEncoder:
    """An open_clip model; fills the protocol `ares.search.encoding.Encoder`.

    Args:
        model: The model, on its device and in eval mode.
        preprocess: open_clip's transform for it.
        tokenizer: open_clip's tokenizer for it.
        name: Portable name with the fingerprint of the weights ("reference-clip-3fa9c1d2").
        device: torch device.
    """

    def __init__(self, model: Any, preprocess: Any, tokenizer: Any, name: str, device: str) -> None:
        self._model, self._preprocess, self._tokenizer = model, preprocess, tokenizer
        self._device = device
        self._pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="clip-resize")
        self.name = name
        self._on_device = None if device == "cpu" else make_pixel_preprocessor(preprocess, device)
        self.dim: int = int(self.encode_texts([""]).shape[1])

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N RGB images, each (H, W, 3) uint8, of any sizes."""
        import torch

        def encode_batch(batch: Sequence[NDArray[np.uint8]]) -> torch.Tensor:
            # On a CPU by open_clip's transform: torchvision's is two to five times as fast, but moves vectors by more
            # than 1e-3 on large frames. Pillow releases the lock, so threads help. A GPU must not wait for Pillow.
            if self._on_device is None:
                pixels = torch.stack(list(self._pool.map(self._prepare, batch))).to(self._device)
            else:
                pixels = self._on_device(batch)
            vectors: torch.Tensor = self._model.encode_image(pixels, normalize=True)
            return vectors

        return self._encode(images, encode_batch)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N texts; longer texts are cut to the model's context."""

        def encode_batch(batch: Sequence[str]) -> torch.Tensor:
            vectors: torch.Tensor = self._model.encode_text(
                self._tokenizer(list(batch)).to(self._device), normalize=True
            )
            return vectors

        return self._encode(texts, encode_batch)

    def save_text_encoder(self, path: Path) -> bool:
        """Write the text tower to one file, from which NumPy computes the same vectors.

        Returns:
            False, and nothing is written, where the tower is of an architecture that is not known to
            `annotators.models.text_tower`, or its vectors differ.
        """
        stored = extract_text_tower(self._model, self._tokenizer, self.name)
        return stored is not None and write_text_tower(
            path, stored, lambda written: gives_equal_vectors(written, self._encode_texts_precisely)
        )

    def _encode_texts_precisely(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `encode_texts`, in single precision also on a GPU."""
        import torch

        with torch.inference_mode():
            tokens = self._tokenizer(list(texts)).to(self._device)
            vectors: NDArray[np.float32] = self._model.encode_text(tokens, normalize=True).cpu().numpy()
        return vectors

    def _prepare(self, image: NDArray[np.uint8]) -> torch.Tensor:
        from PIL import Image

        prepared: torch.Tensor = self._preprocess(Image.fromarray(image))
        return prepared

    def _encode(self, items: Sequence[Any], encode_batch: Any) -> NDArray[np.float32]:
        return encode_batches(items, encode_batch, _BATCH_SIZE, self._device, getattr(self, "dim", 0))


def load_clip(spec: str, device: str = "") -> ClipEncoder:
    """Load an open_clip model.

    Args:
        spec: "ARCHITECTURE/PRETRAINED_TAG", "hf-hub:ORG/NAME" or "local-dir:FOLDER".
        device: torch device, or "" for a GPU when there is one.

    Raises:
        ModelError: The model is not known, cannot be downloaded, or its weights cannot be read.
        RequestError: The extra `models` is not installed.
    """
    import pickle

    name, tag = _split_spec(spec)
    if not spec.startswith(_LOCAL_PREFIX):
        prepare_hub(spec, name.removeprefix(_HUB_PREFIX) if tag is None else open_clip_hub_id(spec))
    with needs_extra("models"):
        import open_clip
        from safetensors import SafetensorError

    device = select_device(device)
    try:
        model, _, preprocess = open_clip.create_model_and_transforms(
            name, pretrained=tag, require_pretrained=True
        )
        tokenizer = open_clip.get_tokenizer(name)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, pickle.UnpicklingError) as error:
        raise ModelError(
            "embedding model cannot be loaded", f"{spec}: {_first_line(error)}; {_loading_remedy(spec)}"
        ) from None
    fingerprint = hash_model_weights(model.state_dict())
    model.eval().to(device)
    return ClipEncoder(model, preprocess, tokenizer, f"{_name_from_spec(spec)}-{fingerprint}", device)


def make_spec_absolute(spec: str) -> str:
    """The spec that loads the same model from any working folder."""
    prefix, _, rest = spec.partition(":")
    is_folder = f"{prefix}:" == _LOCAL_PREFIX or (prefix == "hf" and Path(rest).is_dir())
    return f"{prefix}:{Path(rest).resolve()}" if is_folder else spec


def hash_model_weights(weights: dict[str, torch.Tensor]) -> str:
    """8 hex digits over names, types and values of weights: the same for the same weights in any file."""
    import hashlib

    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:8]


def _split_spec(spec: str) -> tuple[str, str | None]:
    if spec.startswith((_LOCAL_PREFIX, _HUB_PREFIX)):
        return make_spec_absolute(spec), None
    name, slash, tag = spec.partition("/")
    if not (name and slash and tag):
        raise ModelError("embedding model spec cannot be read", f"{spec!r}; {_loading_remedy('')}")
    return name, tag


def _name_from_spec(spec: str) -> str:
    text = (
        Path(make_spec_absolute(spec).removeprefix(_LOCAL_PREFIX)).name
        if spec.startswith(_LOCAL_PREFIX)
        else spec
    )
    return re.sub(r"[^A-Za-z0-9_]+", "-", text.removeprefix(_HUB_PREFIX)).strip("-")


def _first_line(error: BaseException) -> str:
    return shorten((str(error).strip().splitlines() or [type(error).__name__])[0])


def _loading_remedy(spec: str) -> str:
    if spec.startswith(_LOCAL_PREFIX):
        return "give a folder with open_clip_config.json and its weights"
    if spec:
        return "without a network give local-dir:FOLDER; `open_clip.list_pretrained()` lists the names"
    return "give ARCHITECTURE/TAG such as ViT-B-32/laion2b_s34b_b79k, hf-hub:ORG/NAME or local-dir:FOLDER"
