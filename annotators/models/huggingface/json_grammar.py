"""JSON schemas as grammars over the tokens of a model, by llguidance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.errors import ModelError
from ares.extras import needs_extra

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from llguidance._lib import JsonCompileOptions

    from ares.episode import Json

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
