"""What a chat completion is asked with, in the dialect of its server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ares_annotators.models.base import MAX_IMAGE_SIDE, Capability, VlmRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_JPEG_QUALITY = 90
_TOP_TOKENS = 20
# Key of the JSON object that holds a choice, at servers which constrain replies by schemas alone.
CHOICE_KEY = "answer"
_COMMON: frozenset[Capability] = frozenset({"schema", "choices", "probabilities", "samples", "seed"})


def list_server_capabilities(software: str) -> frozenset[Capability]:
    """What a server software can do: a clip is understood by vLLM alone."""
    return _COMMON | {"clip"} if software == "vllm" else _COMMON


class ImageEncoder:
    """Encodes images as JPEG data URLs; the questions about one subject share theirs, so each is encoded once."""

    def __init__(self) -> None:
        self._urls: dict[int, tuple[NDArray[np.uint8], str]] = {}

    def jpeg_base64(self, image: NDArray[np.uint8]) -> str:
        """Base64 of the JPEG of an RGB image (H, W, 3), made smaller where a side has more than MAX_IMAGE_SIDE."""
        known = self._urls.get(id(image))
        if known is None or known[0] is not image:
            known = (image, _jpeg_base64(image))
            self._urls[id(image)] = known
        return known[1]


def make_request_body(
    request: VlmRequest, model: str, software: str, max_tokens: int, encoder: ImageEncoder
) -> bytes:
    """JSON of a request.

    Sources: the OpenAI chat completions reference; "Structured Outputs" in the manuals of vLLM (0.12 and later) and
    SGLang, read in November 2026.

    Args:
        request: The request.
        model: The server's name of the model.
        software: "vllm", "sglang", or another name for the OpenAI dialect.
        max_tokens: Length limit where the request has none.
        encoder: Encodes its images.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": _chat_messages(request, software, encoder),
        "temperature": request.temperature,
        "max_tokens": request.max_tokens or max_tokens,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.samples > 1:
        body["n"] = request.samples
    if request.probabilities:
        body |= {"logprobs": True, "top_logprobs": _TOP_TOKENS}
    body |= _reply_constraint(request, software)
    if software in ("vllm", "sglang"):
        body["chat_template_kwargs"] = {"enable_thinking": False}
    return json.dumps(body).encode()


def _reply_constraint(request: VlmRequest, software: str) -> dict[str, Any]:
    """The fields that constrain the form of the reply."""
    if request.choices and software == "vllm":
        return {"structured_outputs": {"choice": list(request.choices)}}
    if request.choices and software == "sglang":
        return {"regex": "(" + "|".join(re.escape(choice) for choice in request.choices) + ")"}
    if request.choices:
        return _json_format("choice", _choice_schema(request.choices))
    return _json_format("reply", request.schema) if request.schema is not None else {}


def _json_format(name: str, schema: Any) -> dict[str, Any]:
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": True},
        }
    }


def _choice_schema(choices: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {CHOICE_KEY: {"type": "string", "enum": list(choices)}},
        "required": [CHOICE_KEY],
        "additionalProperties": False,
    }


def _chat_messages(request: VlmRequest, software: str, encoder: ImageEncoder) -> list[dict[str, Any]]:
    images = [encoder.jpeg_base64(image) for image in request.images]
    if request.clip and software == "vllm":
        # vLLM reads the frames of a clip from JPEGs that a comma separates.
        parts: list[dict[str, Any]] = [
            {
                "type": "video_url",
                "video_url": {"url": f"data:video/jpeg;base64,{','.join(images)}"},
            }
        ]
    else:
        parts = [
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{image}"}} for image in images
        ]
    user = {"role": "user", "content": [*parts, {"type": "text", "text": request.prompt}]}
    return [{"role": "system", "content": request.system}, user] if request.system else [user]


def _jpeg_base64(image: NDArray[np.uint8]) -> str:
    import cv2

    from ares_annotators.models.paid_calls import shrink_image

    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, data = cv2.imencode(
        ".jpg", cv2.cvtColor(shrink_image(image, MAX_IMAGE_SIDE), cv2.COLOR_RGB2BGR), quality
    )
    return base64.b64encode(data.tobytes()).decode()
