"""Tiny vision towers of real architectures with random weights, built from their own config classes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
_SIDE = {"height": 32, "width": 32}
WITH_TEXTS = ("SigLIP", "SigLIP2", "CLIP")
WITHOUT_TEXTS = ("DINOv2", "DINOv3")


def save_tower(architecture: str, folder: Path) -> Path:
    """Write a tiny model, its image processor and, where it has texts, its tokenizer; the folder."""
    import torch

    torch.manual_seed(3)
    library: Any = import_module("transformers")
    config, processor = _parts(library, architecture)
    model = library.AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    if architecture in WITH_TEXTS:
        _tokenizer(library).save_pretrained(folder)
    return folder


def _parts(library: Any, architecture: str) -> tuple[Any, Any]:
    text = {**_VISION, "vocab_size": 300, "max_position_embeddings": 16, "projection_size": 32}
    text |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    patches = {**_VISION, "image_size": 32, "patch_size": 8}
    if architecture == "SigLIP":
        return library.SiglipConfig(text_config=text, vision_config=patches), library.SiglipImageProcessor(
            size=_SIDE
        )
    if architecture == "SigLIP2":
        naflex = {**_VISION, "patch_size": 8, "num_patches": 16}
        return library.Siglip2Config(text_config=text, vision_config=naflex), library.Siglip2ImageProcessor(
            patch_size=8, max_num_patches=16
        )
    if architecture == "CLIP":
        size = {"size": {"shortest_edge": 32}, "crop_size": _SIDE}
        return library.CLIPConfig(
            text_config=text, vision_config=patches, projection_dim=32
        ), library.CLIPImageProcessor(**size)
    if architecture == "DINOv2":
        size = {"size": {"shortest_edge": 32}, "crop_size": _SIDE}
        return library.Dinov2Config(**patches), library.BitImageProcessor(**size)
    return library.DINOv3ViTConfig(**patches), library.DINOv3ViTImageProcessor(size=_SIDE)


def _tokenizer(library: Any) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(["open the drawer", "close the drawer"], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", pad_token="</s>"
    )
