"""The text tower and the tokenizer of an open_clip model, as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares_annotators.models.text_tokenizer import Cleaning, TokenizerConfig
from ares_annotators.models.text_tower import (
    Activation,
    StoredTextEncoder,
    StoredTextTower,
    TextTowerConfig,
    find_unknown_weights,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
