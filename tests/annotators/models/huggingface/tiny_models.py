"""Tiny models of real architectures with random weights, built from their own config classes and saved as folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

# What a tiny model replies where nothing constrains it: its head makes each of these tokens follow the one before.
SENTENCE = "open the drawer"
_CORPUS = [
    *["open the drawer", "close the drawer", "MET UNMET UNSURE", "the robot arm shows frames of a task"] * 20,
    *['{"observation": "", "frames": [1, 2, 3], "verdict": "MET"}', "user assistant system\n"] * 20,
]
_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
}
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE"
    "{% elif part['type'] == 'video' %}VIDEO{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyFamily:
    """How a tiny model of one architecture is built.

    Attributes:
        architecture: Name for people.
        specials: Its special tokens beside those of the chat.
        image: What its chat template writes for an image.
        video: What it writes for a clip.
        named: Special tokens that its processor looks up by attribute.
        build: Makes the config and the processor of a tokenizer.
    """

    architecture: str
    specials: tuple[str, ...]
    image: str
    video: str
    build: Callable[[Any, str], tuple[Any, Any]]
    named: dict[str, str] = field(default_factory=dict)

    def save(self, folder: Path, seed: int = 0, template: str = "") -> Path:
        """Write the model and its processor to a folder, which is returned."""
        import torch

        tokenizer = _tokenizer(self)
        template = (template or _TEMPLATE).replace("IMAGE", self.image).replace("VIDEO", self.video)
        config, processor = self.build(tokenizer, template)
        torch.manual_seed(seed)
        model: Any = _library().AutoModelForImageTextToText.from_config(config)
        _script(model, tokenizer)
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.generation_config.pad_token_id = tokenizer.pad_token_id
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return folder


def _library() -> Any:
    """transformers, whose classes are typed in part only."""
    return import_module("transformers")


def _tokenizer(family: TinyFamily) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    specials = ["<pad>", "<|im_start|>", "<|im_end|>", *family.specials]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return _library().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<pad>",
        extra_special_tokens=family.named,
    )


def _script(model: Any, tokenizer: Any) -> None:
    """Make the head reply SENTENCE where it may, and end strings and lists early where it must not."""
    import torch

    generator = torch.Generator().manual_seed(7)
    embeddings = model.get_input_embeddings().weight.data
    head = model.get_output_embeddings().weight.data
    common = torch.randn(embeddings.shape[1], generator=generator)
    embeddings.copy_(torch.randn(embeddings.shape, generator=generator) + common)
    head.mul_(0.05)
    (newline,) = tokenizer.encode("\n")
    chain = [newline, *tokenizer.encode(SENTENCE), tokenizer.eos_token_id]
    for before, after in pairwise(chain):
        head[after] += 0.4 * (embeddings[before] - common)
    for text in ('"', '",', '"}', "]", "],", "}", "1"):
        ids = tokenizer.encode(text)
        head[ids[0]] += (0.15 if text == '"' else 0.06) * common


def _ids(tokenizer: Any, *tokens: str) -> list[int]:
    return [int(tokenizer.convert_tokens_to_ids(token)) for token in tokens]


def _text_config(config: type, tokenizer: Any, **more: Any) -> Any:
    return config(
        **_TEXT,
        vocab_size=len(tokenizer),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        **more,
    )


_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
_QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_PIXELS = {"shortest_edge": 28 * 28 * 4, "longest_edge": 64 * 64}


_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
_QWEN_VISION = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}


def _qwen_ids(tokenizer: Any) -> dict[str, Any]:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, _ids(tokenizer, *_QWEN_TOKENS), strict=True))
    return {**ids, "tie_word_embeddings": False}


def _qwen25(tokenizer: Any, template: str) -> tuple[Any, Any]:
    Qwen2_5_VLTextConfig: Any = import_module(
        "transformers.models.qwen2_5_vl.configuration_qwen2_5_vl"
    ).Qwen2_5_VLTextConfig

    config = _library().Qwen2_5_VLConfig(
        text_config=_text_config(Qwen2_5_VLTextConfig, tokenizer, rope_parameters=_ROPE).to_dict(),
        vision_config={
            **_QWEN_VISION,
            "fullatt_block_indexes": [1],
            "window_size": 56,
        },
        **_qwen_ids(tokenizer),
    )
    processor = _library().Qwen2_5_VLProcessor(
        _library().Qwen2VLImageProcessor(size=_PIXELS),
        tokenizer,
        _library().Qwen2VLVideoProcessor(size=_PIXELS),
        template,
    )
    return config, processor


def _qwen3(tokenizer: Any, template: str) -> tuple[Any, Any]:
    Qwen3VLTextConfig: Any = import_module(
        "transformers.models.qwen3_vl.configuration_qwen3_vl"
    ).Qwen3VLTextConfig

    config = _library().Qwen3VLConfig(
        text_config=_text_config(Qwen3VLTextConfig, tokenizer, rope_parameters=_ROPE, head_dim=16).to_dict(),
        vision_config={
            **_QWEN_VISION,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        **_qwen_ids(tokenizer),
    )
    images = _library().Qwen2VLImageProcessor(size=_PIXELS, patch_size=16)
    videos = _library().Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": 64 * 64 * 4})
    return config, _library().Qwen3VLProcessor(images, tokenizer, videos, template)


def _internvl(tokenizer: Any, template: str) -> tuple[Any, Any]:
    side = {"height": 56, "width": 56}
    config = _library().InternVLConfig(
        text_config=_text_config(_library().Qwen2Config, tokenizer).to_dict(),
        vision_config={
            **_VISION,
            "image_size": [56, 56],
            "patch_size": [14, 14],
        },
        image_token_id=_ids(tokenizer, "<IMG_CONTEXT>")[0],
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    processor = _library().InternVLProcessor(
        _library().GotOcr2ImageProcessor(size=side, crop_to_patches=True, max_patches=2),
        tokenizer,
        _library().InternVLVideoProcessor(size=side),
        image_seq_length=4,
        chat_template=template,
    )
    return config, processor


def _smolvlm(tokenizer: Any, template: str) -> tuple[Any, Any]:
    config = _library().SmolVLMConfig(
        text_config=_text_config(_library().LlamaConfig, tokenizer),
        vision_config={
            **_VISION,
            "image_size": 64,
            "patch_size": 16,
        },
        image_token_id=_ids(tokenizer, "<image>")[0],
        scale_factor=2,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
    )
    size = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 64}}
    videos = _library().SmolVLMVideoProcessor(**size, video_sampling={"fps": 1, "max_frames": 8})
    videos.num_frames, videos.fps = 8, 1
    processor = _library().SmolVLMProcessor(
        _library().SmolVLMImageProcessor(**size), tokenizer, videos, image_seq_len=4, chat_template=template
    )
    return config, processor


def _llava(tokenizer: Any, template: str) -> tuple[Any, Any]:
    side, grid = {"height": 56, "width": 56}, [[56, 56], [56, 112], [112, 56]]
    image, video = _ids(tokenizer, "<image>", "<video>")
    config = _library().LlavaOnevisionConfig(
        text_config=_text_config(_library().Qwen2Config, tokenizer),
        vision_config=_library().SiglipVisionConfig(
            **_VISION,
            image_size=56,
            patch_size=14,
        ),
        image_token_index=image,
        video_token_index=video,
        image_grid_pinpoints=grid,
        tie_word_embeddings=False,
    )
    processor = _library().LlavaOnevisionProcessor(
        _library().LlavaOnevisionImageProcessor(size=side, image_grid_pinpoints=grid),
        tokenizer,
        _library().LlavaOnevisionVideoProcessor(size=side),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=template,
    )
    return config, processor


def _llava_next(tokenizer: Any, template: str) -> tuple[Any, Any]:
    grid = [[56, 112], [112, 56]]
    (image,) = _ids(tokenizer, "<image>")
    config = _library().LlavaNextConfig(
        text_config=_text_config(_library().MistralConfig, tokenizer),
        vision_config=_library().CLIPVisionConfig(
            **_VISION,
            image_size=56,
            patch_size=14,
        ),
        image_token_index=image,
        image_grid_pinpoints=grid,
        tie_word_embeddings=False,
    )
    processor = _library().LlavaNextProcessor(
        _library().LlavaNextImageProcessor(
            size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}, image_grid_pinpoints=grid
        ),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    return config, processor


_QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
_QWEN_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"
FAMILIES = {
    "tiny-Qwen2.5-VL": TinyFamily("Qwen2.5-VL", _QWEN_TOKENS, _QWEN_IMAGE, _QWEN_VIDEO, _qwen25),
    "tiny-Qwen3-VL": TinyFamily("Qwen3-VL", _QWEN_TOKENS, _QWEN_IMAGE, _QWEN_VIDEO, _qwen3),
    "tiny-InternVL3": TinyFamily(
        "InternVL3",
        ("<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
        "<IMG_CONTEXT>\n",
        "<video>\n",
        _internvl,
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    ),
    "tiny-SmolVLM": TinyFamily(
        "SmolVLM",
        ("<image>", "<video>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"),
        "<image>",
        "<video>",
        _smolvlm,
    ),
    "tiny-LLaVA-OneVision": TinyFamily(
        "LLaVA-OneVision", ("<image>", "<video>"), "<image>", "<video>", _llava
    ),
    "tiny-LLaVA-NeXT": TinyFamily("LLaVA-NeXT", ("<image>",), "<image>", "", _llava_next),
}
