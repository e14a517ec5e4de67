"""What a model of texts says of two values of a slot: each pair is asked about once in a workspace, plain ones together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from annotators.grade.plain_words import has_known_words, is_plain_value
from annotators.grade.questions import ValuePair, comparisons_request, parse_comparisons, questions_hash
from annotators.models import VlmFailure
from ares.annotation import Cost, short_hash
from ares.store import MODEL_REPLIES, batched

if TYPE_CHECKING:
    from annotators.grade.observing_judge import TextModel
    from ares.store import AnnotationStore


MOST_PAIRS = 16
# Beside the replies, so that they are deleted with them.
_PREFIX = "pair/"

# Words that texts of several episodes of a dataset have.
WordReader = Callable[[str], frozenset[str]]


class PairAnswers:
    """Answers about pairs of values, kept in the documents of a workspace; safe to use from threads.

    Args:
        texts: The model.
        log: Where they are kept.
        known_words: Reads the common words of a dataset.
    """

    def __init__(self, texts: TextModel, log: AnnotationStore, known_words: WordReader) -> None:
        self._texts, self._log, self._known_words = texts, log, known_words
        self._answers: dict[ValuePair, str] = {}
        self._model = short_hash([dict(texts.settings), questions_hash()])

    def find(self, pair: ValuePair) -> str | None:
        """The answer about a pair; None where it was not asked about."""
        if pair not in self._answers:
            stored = self._log.get_document(MODEL_REPLIES, self._key(pair))
            if not isinstance(stored, dict):
                return None
            self._answers[pair] = str(stored["answer"])
        return self._answers[pair]

    def put(self, answers: dict[ValuePair, str]) -> None:
        """Keep new answers."""
        self._answers.update(answers)
        if answers:
            documents = {self._key(pair): {"answer": answer} for pair, answer in answers.items()}
            self._log.put_documents(MODEL_REPLIES, documents)

    def is_plain(self, pair: ValuePair, claimed: str, dataset: str) -> bool:
        """Whether a pair may be asked about beside others.

        Args:
            pair: The pair.
            claimed: The one of its values that a caption states; the other is the judge's own.
            dataset: The dataset of the caption.
        """
        are_plain = is_plain_value(pair.first) and is_plain_value(pair.second)
        return are_plain and has_known_words(claimed, self._known_words(dataset))

    def ask_together(self, pairs: Sequence[ValuePair]) -> list[tuple[ValuePair, Cost]]:
        """Ask about plain pairs, many in a call; the first pair of each call, and what the call has cost.

        What no usable reply answers stays open, and is asked about alone.
        """
        chunks = [list(chunk) for chunk in batched(pairs, MOST_PAIRS)]
        requests = [comparisons_request(chunk, self._texts.has_schema) for chunk in chunks]
        paid = []
        for chunk, reply in zip(chunks, self._texts.ask(requests), strict=True):
            if isinstance(reply, VlmFailure):
                paid.append((chunk[0], reply.cost))
                continue
            answers = parse_comparisons(reply.text, len(chunk)) or []
            self.put(dict(zip(chunk, answers, strict=False)))
            paid.append((chunk[0], reply.paid))
        return paid

    def _key(self, pair: ValuePair) -> str:
        return _PREFIX + short_hash([self._model, pair.slot, pair.first, pair.second])
