"""Vision-language models behind any OpenAI-compatible server, through the official client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from annotators.models.base import VlmReply, VlmRequest, model_family, price_usd
from ares.annotation import Cost
from ares.errors import AresError, ModelError
from ares.extras import needs_extra
from ares.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai.types.chat import ChatCompletion

_TIMEOUT_SECONDS = 120.0
_RETRIES = 5
_JPEG_QUALITY = 90


class OpenAiVlm:
    """A model behind a server; fills the protocol `annotators.models.base.Vlm`.

    The client retries after 408, 409, 429, 5xx, a timeout or a broken connection, with growing waits or those of the
    server's Retry-After; after the last retry the request has failed.

    Args:
        model: The server's name of the model.
        url: Base URL, ending in /v1 for most servers.
        settings: Key and price.
        max_new_tokens: Length limit of one reply.
        timeout_seconds: Timeout of one attempt.
        retries: Attempts after the first.

    Raises:
        RequestError: The extra `openai` is not installed.
    """

    batch_size = 1
    workers = 16

    def __init__(
        self,
        model: str,
        url: str,
        settings: Settings,
        max_new_tokens: int,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        retries: int = _RETRIES,
    ) -> None:
        with needs_extra("openai"):
            from openai import OpenAI

        self._model, self._url, self._max_new_tokens = model, url, max_new_tokens
        self._price = settings.price
        self._key = settings.openai_api_key
        self._client = OpenAI(
            base_url=url, api_key=self._key or "none", timeout=timeout_seconds, max_retries=retries
        )
        self.name = model
        self.family = model_family(model)

    def generate(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | AresError]:
        """One reply per request, at temperature 0, one after the other."""
        return [self._generate(request) for request in requests]

    def _generate(self, request: VlmRequest) -> VlmReply | AresError:
        import json

        import openai

        try:
            completion = self._client.chat.completions.create(
                model=self._model,
                messages=_messages(request),
                temperature=0.0,
                max_tokens=self._max_new_tokens,
            )
        except openai.APITimeoutError:
            return self._error("model server did not answer in time", f"{self._url}")
        except openai.APIConnectionError as error:
            return self._error("model server cannot be reached", f"{self._url}: {error.__cause__ or error}")
        except openai.APIStatusError as error:
            return self._error(f"model server answered {error.status_code}", f"{self._url}: {error.message}")
        except (openai.APIError, json.JSONDecodeError) as error:
            return self._error("model server did not answer with a completion", f"{self._url}: {error}")
        return self._parse(completion)

    def _parse(self, completion: ChatCompletion) -> VlmReply | AresError:
        choices = getattr(completion, "choices", None)
        if not isinstance(choices, list):
            return self._error("model server did not answer with a completion", repr(completion)[:200])
        if not choices:
            return self._error("model server sent no choice", self._model)
        choice = choices[0]
        problem = _problem(choice)
        if problem:
            return self._error(problem, f"{self._model}: {str(choice.message.content)[:200]!r}")
        return VlmReply(text=choice.message.content, cost=self._cost(completion))

    def _cost(self, completion: ChatCompletion) -> Cost:
        usage = completion.usage
        tokens_in, tokens_out = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        usd = price_usd(self._price, tokens_in, tokens_out) if usage else None
        return Cost(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def _error(self, reason: str, detail: str) -> ModelError:
        """An error that never contains the key, even where the server echoed it."""
        clean = " ".join(detail.split())[:500]
        return ModelError(reason, clean.replace(self._key, "***") if self._key else clean)


def _problem(choice: Any) -> str:
    if choice.message is None:
        return "model server sent no message"
    if getattr(choice.message, "refusal", None):
        return "model refused"
    if choice.finish_reason == "length":
        return "reply was cut at its length limit"
    if choice.finish_reason == "content_filter":
        return "reply was blocked by a content filter"
    return "" if isinstance(choice.message.content, str) else "model server sent no text"


def _messages(request: VlmRequest) -> Any:
    parts: list[dict[str, object]] = [
        {"type": "image_url", "image_url": {"url": _data_url(image)}} for image in request.images
    ]
    user = {"role": "user", "content": [*parts, {"type": "text", "text": request.prompt}]}
    return [{"role": "system", "content": request.system}, user] if request.system else [user]


def _data_url(image: NDArray[np.uint8]) -> str:
    import base64

    import cv2

    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()
