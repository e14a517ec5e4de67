"""How a loaded local model replies: its chat template and grammar, token by token, or by scoring each choice."""

from __future__ import annotations

import inspect
import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ares.annotation import Cost
from ares.console import count_of
from ares.errors import ModelError
from ares.imports import needs_extra
from ares_annotators.models.base import MAX_IMAGE_SIDE, VlmFailure, VlmReply, VlmRequest
from ares_annotators.models.paid_calls import shrink_image

if TYPE_CHECKING:
    import numpy as np
    import torch
    from llguidance import LLMatcher
    from llguidance._lib import JsonCompileOptions
    from numpy.typing import NDArray

    from ares.episode import Json


_SYSTEM, _USER = "system-text", "user-text"
_OPEN_THOUGHT = ("<think>", "<|thinking|>", "[THINK]")


class ChatEncoder:
    """Writes requests by the chat template of a processor, without thinking where the template can switch it off.

    Attributes:
        takes_system: The template writes a system prompt; otherwise that comes before the prompt of the user.
        takes_prompts: The template writes the prompt of the user; otherwise the model gets images alone.
        takes_clips: The template and the processor take frames as one clip.
        always_thinks: The template begins every reply with a thought, which cannot be switched off.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        # Generation continues at the right end, so the padding must be on the left.
        processor.tokenizer.padding_side = "left"
        if processor.tokenizer.pad_token is None:
            processor.tokenizer.pad_token = processor.tokenizer.eos_token
        # Otherwise SmolVLM writes a clip by another template than that of the model.
        self._template: dict[str, Any] = {"chat_template": processor.chat_template}
        if "enable_thinking" in str(processor.chat_template):
            self._template["enable_thinking"] = False
        _bound_clips(processor)
        self.takes_system = _SYSTEM in self._render(
            [_text_message("system", _SYSTEM), _text_message("user", _USER)]
        )
        self.takes_clips = self._writes_clips()
        question = self._render([_text_message("user", _USER)])
        self.takes_prompts = _USER in question or not question
        self.always_thinks = question.rstrip().endswith(_OPEN_THOUGHT)

    def encode(self, requests: Sequence[VlmRequest]) -> Any:
        """Tensors of a batch, on the CPU: `input_ids` and `attention_mask` (N, L), and what the model adds.

        All requests have images, or all a clip, or all neither. Raises ValueError for images that the processor
        refuses.
        """
        options: dict[str, Any] = {"padding": True}
        if requests[0].clip:
            options |= {
                "do_sample_frames": False,
                "video_metadata": [_frames_by_second(request) for request in requests],
            }
        return self._processor.apply_chat_template(
            [self._chat(request) for request in requests],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs=options,
            **self._template,
        )

    def _chat(self, request: VlmRequest) -> list[dict[str, Any]]:
        images = [shrink_image(image, MAX_IMAGE_SIDE) for image in request.images]
        folded = request.system and not self.takes_system
        text = f"{request.system}\n\n{request.prompt}" if folded else request.prompt
        parts = [*_image_parts(images, request.clip), {"type": "text", "text": text}]
        user = {"role": "user", "content": parts}
        return [_text_message("system", request.system), user] if request.system and not folded else [user]

    def _writes_clips(self) -> bool:
        token = getattr(self._processor, "video_token", None)
        if not token or getattr(self._processor, "video_processor", None) is None:
            return False
        clip = {"role": "user", "content": [{"type": "video", "video": ""}, {"type": "text", "text": _USER}]}
        return token in self._render([clip])

    def _render(self, chat: list[dict[str, Any]]) -> str:
        """The text of a chat up to the reply, or "" where the template refuses it."""
        from jinja2 import TemplateError

        try:
            return str(
                self._processor.apply_chat_template(
                    chat, add_generation_prompt=True, tokenize=False, **self._template
                )
            )
        except TemplateError:
            return ""


def _bound_clips(processor: Any) -> None:
    """Bound the pixels of each frame of a clip, which some processors of Qwen leave open."""
    videos: Any = getattr(processor, "video_processor", None)
    if hasattr(videos, "cap_pixels_per_frame"):
        videos.cap_pixels_per_frame = True


def _frames_by_second(request: VlmRequest) -> dict[str, Any]:
    """A clip has no times: the model is told one frame per second."""
    count = len(request.images)
    return {
        "fps": 1.0,
        "total_num_frames": count,
        "frames_indices": list(range(count)),
        "duration": float(count),
    }


def _text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _image_parts(images: Sequence[Any], clip: bool) -> list[dict[str, Any]]:
    import numpy as np
    from PIL import Image

    if clip:
        return [{"type": "video", "video": np.stack(images)}]
    return [{"type": "image", "image": Image.fromarray(image)} for image in images]


# The spaces of Python's `json.dumps`: models read and write JSON in this form most often, and endless spaces are none.
_FORM: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class JsonGrammar:
    """The vocabulary of a model, for which JSON schemas become matchers.

    Args:
        tokenizer: A tokenizer of the library `tokenizers`.
        vocabulary_size: Number of logits of the model.
        stop_ids: Tokens that end a reply.

    Raises:
        RequestError: The extra `models` is not installed.
    """

    def __init__(self, tokenizer: Any, vocabulary_size: int, stop_ids: Sequence[int]) -> None:
        with needs_extra("models"):
            from llguidance.hf import from_tokenizer

        self._tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary_size, eos_token=list(stop_ids))
        self._grammars: dict[str, str] = {}

    def matcher(self, schema: Mapping[str, Json]) -> LLMatcher:
        """A matcher that follows one reply.

        Raises:
            ModelError: The schema has something that cannot be held.
        """
        from llguidance import LLMatcher

        matcher = LLMatcher(self._tokenizer, self._grammar(json.dumps(schema)), log_level=0)
        if matcher.is_error():
            raise ModelError("JSON schema cannot be held", " ".join(matcher.get_error().split())[:300])
        return matcher

    def _grammar(self, schema: str) -> str:
        from llguidance import LLMatcher

        if schema not in self._grammars:
            self._grammars[schema] = LLMatcher.grammar_from_json_schema(schema, overrides=_FORM)
        return self._grammars[schema]


@dataclass(frozen=True, kw_only=True)
class LoadedTransformer:
    """A model and its processor.

    Attributes:
        model: A transformers image-text-to-text model, on its device and in eval mode.
        tokenizer: The tokenizer of its processor.
        chats: Writes requests for it.
        name: Portable name with the fingerprint of the weights.
        max_new_tokens: Length limit of a reply where the request has none.
    """

    model: Any
    tokenizer: Any
    chats: ChatEncoder
    name: str
    max_new_tokens: int

    @cached_property
    def stop_ids(self) -> Sequence[int]:
        """Tokens that end a reply."""
        ids = self.model.generation_config.eos_token_id
        return ids if isinstance(ids, list) else [ids]

    @cached_property
    def grammar(self) -> JsonGrammar:
        """Makes matchers of JSON schemas; built when the first schema comes, in about a second."""
        return JsonGrammar(self.tokenizer, self.model.config.get_text_config().vocab_size, self.stop_ids)

    def encode(self, requests: Sequence[VlmRequest]) -> Any:
        """Tensors of a batch of requests on the CPU, see `ChatEncoder.encode`."""
        return self.chats.encode(requests)

    def to_device(self, inputs: Any) -> Any:
        """Tensors on the device of the model, those of pixels in its number format."""
        return inputs.to(self.model.device, self.model.dtype)


Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Choices as tokens.

    Attributes:
        tokens: Tokens of each choice, up to the first that distinguishes it from all others. Where a choice is the
            beginning of another, that is the token that ends a reply.
        contexts: Beginnings of replies after which the model is asked for the next token; none begins another.
    """

    tokens: Mapping[str, Tokens]
    contexts: Sequence[Tokens]


def cut_to_distinct_tokens(choices: Mapping[str, Sequence[int]], stop_id: int) -> ChoiceTokens:
    """Cut the tokens of choices to those that distinguish them.

    Args:
        choices: All tokens of each choice; no two are equal.
        stop_id: Token that ends a reply.
    """
    whole = {choice: (*tokens, stop_id) for choice, tokens in choices.items()}
    cut = {choice: tokens[: 1 + _shared_length(tokens, whole.values())] for choice, tokens in whole.items()}
    contexts = {tokens[:-1] for tokens in cut.values()}
    longest = [
        context for context in contexts if not any(_is_proper_prefix(context, other) for other in contexts)
    ]
    return ChoiceTokens(cut, sorted(longest))


def choice_probabilities(
    choices: ChoiceTokens, logprob: Callable[[Tokens, int, int], float]
) -> dict[str, float]:
    """The probability of each choice, summing to 1.

    Args:
        choices: The choices.
        logprob: Natural logarithm of the probability of a token, by a context, a position in it and the token.
    """
    sums = {
        choice: _sum_logprobs(tokens, choices.contexts, logprob) for choice, tokens in choices.tokens.items()
    }
    best = max(sums.values())
    weights = {choice: math.exp(value - best) for choice, value in sums.items()}
    total = sum(weights.values())
    return {choice: weight / total for choice, weight in weights.items()}


def choose(probabilities: Mapping[str, float], temperature: float, generator: random.Random) -> str:
    """The most probable choice, or one drawn at a temperature above 0."""
    best = max(probabilities, key=lambda choice: probabilities[choice])
    if temperature <= 0:
        return best
    weights = [(value / probabilities[best]) ** (1 / temperature) for value in probabilities.values()]
    return generator.choices(list(probabilities), weights)[0]


def _sum_logprobs(
    tokens: Tokens, contexts: Sequence[Tokens], logprob: Callable[[Tokens, int, int], float]
) -> float:
    context = next(context for context in contexts if context[: len(tokens) - 1] == tokens[:-1])
    return sum(logprob(context, position, token) for position, token in enumerate(tokens))


def _shared_length(tokens: Tokens, all_tokens: Iterable[Tokens]) -> int:
    """Tokens that a choice has in common with the most similar other one."""
    return max((_common_length(tokens, other) for other in all_tokens if other != tokens), default=0)


def _common_length(tokens: Tokens, other: Tokens) -> int:
    pairs = zip(tokens, other, strict=False)
    return next((index for index, (left, right) in enumerate(pairs) if left != right), len(tokens))


def _is_proper_prefix(context: Tokens, other: Tokens) -> bool:
    return context != other and other[: len(context)] == context


_BITS = 32


@dataclass(slots=True, kw_only=True)
class ReplyTokenRules:
    """What holds for one reply.

    Attributes:
        matcher: Follows the reply in its grammar; None for free text.
        temperature: 0 for the most probable token.
        random: Chooses tokens where the temperature is above 0.
    """

    matcher: LLMatcher | None
    temperature: float
    random: random.Random


def make_sample_generator(seed: int | None, sample: int) -> random.Random:
    """The random numbers of one sample of a request: the same in any batch. Without a seed, as for seed 0."""
    return random.Random(f"{seed or 0}:{sample}")


class TokenRulesProcessor:
    """A logits processor of transformers that gives each row different rules.

    Args:
        rows: Rules by row, of replies that all begin with the next token.
        stop_ids: Tokens that end a reply: all that is left where its grammar is complete.
    """

    def __init__(self, rows: Sequence[ReplyTokenRules], stop_ids: Sequence[int]) -> None:
        self._rows, self._stop_ids = rows, stop_ids
        self._has_begun = False

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (N, V) of the next tokens, -inf where a token is not allowed or not forced."""
        if self._has_begun:
            self._consume(input_ids[:, -1].tolist())
        self._has_begun = True
        if any(row.matcher for row in self._rows):
            scores = _mask_scores(scores, self._allowed_bits(scores.shape[1]))
        for index, row in enumerate(self._rows):
            if row.temperature > 0:
                scores[index] = _choose_token(scores[index], row.temperature, row.random.random())
        return scores

    def _consume(self, tokens: Sequence[int]) -> None:
        for row, token in zip(self._rows, tokens, strict=True):
            if row.matcher and not row.matcher.is_stopped():
                row.matcher.consume_token(token)

    def _allowed_bits(self, vocabulary_size: int) -> NDArray[np.int32]:
        """Bits (N, ceil(V / 32)) int32 of the tokens that the grammars allow."""
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(len(self._rows), vocabulary_size)
        for index, row in enumerate(self._rows):
            if row.matcher and row.matcher.is_stopped():
                bits[index] = _bits_of(self._stop_ids, bits.shape[1])
            elif row.matcher:
                fill_next_token_bitmask(row.matcher, bits, index)
        return bits


def _bits_of(tokens: Sequence[int], words: int) -> NDArray[np.int32]:
    """Bits (words,) int32 that are set for some tokens."""
    import numpy as np

    bits = np.zeros(words, np.uint32)
    for token in tokens:
        bits[token // _BITS] |= np.uint32(1 << token % _BITS)
    return bits.view(np.int32)


def _mask_scores(scores: torch.Tensor, bits: NDArray[np.int32]) -> torch.Tensor:
    import torch

    words = torch.from_numpy(bits).to(scores.device)
    shifts = torch.arange(_BITS, dtype=torch.int32, device=scores.device)
    allowed = ((words[:, :, None] >> shifts) & 1).flatten(1)[:, : scores.shape[1]]
    return scores.masked_fill(allowed == 0, -torch.inf)


def _choose_token(scores: torch.Tensor, temperature: float, uniform: float) -> torch.Tensor:
    """0 for the token at a quantile of the distribution (V,), -inf for all others."""
    import torch

    cumulative = torch.softmax(scores.double() / temperature, dim=0).cumsum(dim=0)
    token = torch.searchsorted(cumulative, uniform * cumulative[-1], right=True)
    forced = torch.full_like(scores, -torch.inf)
    forced[token.clamp(max=len(scores) - 1)] = 0.0
    return forced


def generate_replies(
    runtime: LoadedTransformer, requests: Sequence[VlmRequest]
) -> Sequence[VlmReply | VlmFailure]:
    """Replies to requests of equal length limit and number of samples.

    A reply that reaches the length limit is an error, not half an answer; of several samples it is left out.

    Raises:
        ModelError: A schema cannot be held.
    """
    samples = requests[0].samples
    limit = requests[0].max_tokens or runtime.max_new_tokens
    rules = [_row_rules(runtime, request, sample) for request in requests for sample in range(samples)]
    inputs = runtime.to_device(runtime.encode(requests))
    rows = _generate_tokens(runtime, inputs, rules, samples, limit)
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    return [
        _read_rows(runtime, rows[index * samples : (index + 1) * samples], int(length), limit)
        for index, length in enumerate(lengths)
    ]


def _row_rules(runtime: LoadedTransformer, request: VlmRequest, sample: int) -> ReplyTokenRules:
    matcher = None if request.schema is None else runtime.grammar.matcher(request.schema)
    return ReplyTokenRules(
        matcher=matcher, temperature=request.temperature, random=make_sample_generator(request.seed, sample)
    )


def _generate_tokens(
    runtime: LoadedTransformer, inputs: Any, rules: Sequence[ReplyTokenRules], samples: int, limit: int
) -> list[list[int]]:
    """New tokens of each row."""
    import torch
    from transformers import LogitsProcessorList

    options: dict[str, Any] = {"do_sample": False}
    if samples > 1:
        # The rules leave one token to each row, so nothing is drawn here.
        options = {"do_sample": True, "num_return_sequences": samples, "temperature": 1.0, "top_k": 0}
    with torch.inference_mode():
        rows = runtime.model.generate(
            **inputs,
            **options,
            max_new_tokens=limit,
            logits_processor=LogitsProcessorList([TokenRulesProcessor(rules, runtime.stop_ids)]),
        )
    width = int(inputs["input_ids"].shape[1])
    return [row[width:] for row in rows.tolist()]


def _read_rows(
    runtime: LoadedTransformer, rows: Sequence[Sequence[int]], tokens_in: int, limit: int
) -> VlmReply | VlmFailure:
    """The reply of a request from its samples."""
    replies = [_until_stop(row, runtime.stop_ids) for row in rows]
    lengths = [len(row) if ids is None else len(ids) + 1 for ids, row in zip(replies, rows, strict=True)]
    cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=sum(lengths))
    texts = [runtime.tokenizer.decode(ids, skip_special_tokens=True) for ids in replies if ids is not None]
    if texts:
        return VlmReply(text=texts[0], cost=cost, samples=tuple(texts))
    error = ModelError("reply was cut at its length limit", f"{count_of(limit, 'token')} from {runtime.name}")
    cut = runtime.tokenizer.decode(rows[0], skip_special_tokens=True)
    return VlmFailure(error, cost, is_unusable_reply=True, text=cut)


def _until_stop(ids: Sequence[int], stop_ids: Sequence[int]) -> Sequence[int] | None:
    """The tokens before the end of a reply, or None where it has none."""
    stop = next((index for index, token in enumerate(ids) if token in stop_ids), None)
    return None if stop is None else ids[:stop]


def choose_replies(runtime: LoadedTransformer, requests: Sequence[VlmRequest]) -> Sequence[VlmReply]:
    """The choice of each request, with the probabilities of all.

    Choices that differ in their first token, or share one beginning, cost one forward pass of the prompt.
    """
    choices = [_tokenise_choices(runtime, request.choices) for request in requests]
    rows = [(index, context) for index, tokens in enumerate(choices) for context in tokens.contexts]
    inputs = runtime.encode([requests[index] for index, _ in rows])
    lengths = inputs["attention_mask"].sum(dim=1).tolist()
    contexts = [context for _, context in rows]
    logprobs = _next_token_logprobs(runtime, inputs, contexts)
    row_of = {row: number for number, row in enumerate(rows)}
    replies = []
    for index, (request, tokens) in enumerate(zip(requests, choices, strict=True)):
        row_logprobs = {context: logprobs[row_of[index, context]] for context in tokens.contexts}
        tokens_in = sum(int(lengths[row_of[index, context]]) for context in tokens.contexts)
        replies.append(_choice_reply(request, tokens, row_logprobs, tokens_in))
    return replies


def _tokenise_choices(runtime: LoadedTransformer, choices: Sequence[str]) -> ChoiceTokens:
    ids = {choice: runtime.tokenizer.encode(choice, add_special_tokens=False) for choice in choices}
    return cut_to_distinct_tokens(ids, runtime.stop_ids[0])


def _choice_reply(
    request: VlmRequest, choices: ChoiceTokens, logprobs: dict[Tokens, torch.Tensor], tokens_in: int
) -> VlmReply:
    probabilities = choice_probabilities(
        choices, lambda context, position, token: float(logprobs[context][position, token])
    )
    samples = [
        choose(probabilities, request.temperature, make_sample_generator(request.seed, sample))
        for sample in range(request.samples)
    ]
    cost = Cost(calls=1, tokens_in=tokens_in, tokens_out=sum(len(choices.tokens[text]) for text in samples))
    return VlmReply(
        text=samples[0],
        cost=cost,
        samples=tuple(samples),
        probabilities=probabilities if request.probabilities else {},
    )


def _next_token_logprobs(runtime: LoadedTransformer, inputs: Any, contexts: Sequence[Tokens]) -> torch.Tensor:
    """(N, 1 + longest context, V) float32 log probabilities of the token after each position of N contexts."""
    import torch

    count = 1 + max(map(len, contexts))
    # The logits of all positions of a prompt would take gigabytes: most models make those of the last ones alone.
    keeps_logits = "logits_to_keep" in inspect.signature(runtime.model.forward).parameters
    options = {"logits_to_keep": count} if keeps_logits else {}
    inputs = runtime.to_device(_append_contexts(inputs, contexts))
    with torch.inference_mode():
        logits = runtime.model(**inputs, **options, use_cache=False).logits
    return torch.log_softmax(logits[:, -count:].float(), dim=-1).cpu()


def _append_contexts(inputs: Any, contexts: Sequence[Tokens]) -> Any:
    """Append N beginnings of replies to N prompts; shorter ones are padded on the right, where nothing sees it."""
    import torch

    longest = max(map(len, contexts))
    if not longest:
        return inputs
    padding = [longest - len(context) for context in contexts]
    tokens = torch.tensor([[*context, *[0] * pad] for context, pad in zip(contexts, padding, strict=True)])
    seen = torch.tensor(
        [[1] * len(context) + [0] * pad for context, pad in zip(contexts, padding, strict=True)]
    )
    added = {"input_ids": tokens, "attention_mask": seen}
    shape = inputs["input_ids"].shape
    for name, tensor in dict(inputs).items():
        if getattr(tensor, "shape", None) == shape:
            more = added.get(name, torch.zeros_like(tokens)).to(tensor.dtype)
            inputs[name] = torch.cat([tensor, more], dim=1)
    return inputs
