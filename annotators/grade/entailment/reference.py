"""The reference entailment model: a small pretrained encoder and a comparing network, computed by numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from annotators.grade.entailment.arithmetic import Arithmetic, Rows, join_rows, normal_softmax
from annotators.grade.entailment.base import Entailment, PairEntailment
from annotators.grade.entailment.words import PieceSplitter, PieceText, pad, shared_stems
from ares.annotation import short_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json

FILE = "reference.safetensors"
_BATCH_SIZE = 128
_SURE_SLOT = 0.9
_ENTAILED, _CONTRADICTED = Entailment(1.0, 0.0, 0.0), Entailment(0.0, 1.0, 0.0)
_OUTCOMES = ("success", "failure", "attempt")
# Heads that say what the caption is like, and nothing of a slot.
_READINGS = ("outcome", "negated", "actor", "whole")


class ReferenceEntailment:
    """Fills the protocol `annotators.grade.entailment.EntailmentModel` on any machine, without a further library.

    Recipe: benchmarks/entailment. Each text is encoded once; a pair costs the comparison alone.

    Args:
        tensors: Weights by name, float32.
        pieces: The word pieces that it knows, in order of their numbers.
        heads: Number of classes by the name of a head, in order.
        bounds: From which probability a whole caption is "accepted", and from which it is "refused".
        fingerprint: Hash of the file.
    """

    most_pairs = 40

    def __init__(
        self,
        tensors: Mapping[str, NDArray[np.float32]],
        pieces: Sequence[str],
        heads: Mapping[str, int],
        bounds: Mapping[str, float],
        fingerprint: str,
    ) -> None:
        self._tensors, self._heads, self._bounds = tensors, heads, bounds
        self._arithmetic = Arithmetic(tensors)
        self.pieces = tuple(pieces)
        self._splitter = PieceSplitter(pieces)
        self._ends = pieces.index("[PAD]"), pieces.index("[CLS]"), pieces.index("[SEP]")
        self.settings: Mapping[str, Json] = {
            "entailment": f"reference:{fingerprint}",
            "entailment_bounds": [bounds["accepted"], bounds["refused"], _SURE_SLOT],
        }
        self._known: dict[tuple[str, str], PairEntailment] = {}
        self._encoded: dict[str, NDArray[np.float32]] = {}

    @property
    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """The weights of the network by name, without temperatures."""
        return {name: values for name, values in self._tensors.items() if name != "temperatures"}

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[PairEntailment]:
        """The entailment of every slot of each pair; a pair is computed once."""
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if len(self._known) > 200_000:
            self._known.clear()
            missing = list(dict.fromkeys(pairs))
        for start in range(0, len(missing), _BATCH_SIZE):
            batch = missing[start : start + _BATCH_SIZE]
            self._known.update(zip(batch, self._entailments(batch), strict=True))
        return [self._known[pair] for pair in pairs]

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> dict[str, NDArray[np.float64]]:
        """Probabilities (N, C) of the classes of each head for N pairs."""
        temperatures = self._tensors["temperatures"]
        logits = self._logits(pairs)
        return {
            name: normal_softmax(logits[name].astype("float64") / float(temperatures[index]))
            for index, name in enumerate(self._heads)
        }

    def _entailments(self, pairs: Sequence[tuple[str, str]]) -> list[PairEntailment]:
        heads = self.probabilities(pairs)
        slots = {name: table for name, table in heads.items() if name not in _READINGS}
        return [
            PairEntailment(
                slots=self._weighed(
                    {name: _entailment(table[index]) for name, table in slots.items()},
                    _entailment([*heads["whole"][index], 0.0]),
                ),
                outcome=dict(zip(_OUTCOMES, heads["outcome"][index].tolist(), strict=True)),
            )
            for index in range(len(pairs))
        ]

    def _weighed(self, slots: Mapping[str, Entailment], whole: Entailment) -> dict[str, Entailment]:
        """The slots of a caption in the light of what it is as a whole, whose bounds were chosen on other pairs.

        An accepted caption is entailed in every slot, for sure: how sure a judge is of its frames counts apart. Else
        what is entailed by little is neutral, and so is that it adds and omits nothing. A refused caption is
        contradicted in what it adds and omits.
        """
        if whole.entailed >= self._bounds["accepted"]:
            return dict.fromkeys(slots, _ENTAILED)
        weighed = {
            name: _neutral(slot) if slot.entailed < _SURE_SLOT or name in ("additions", "complete") else slot
            for name, slot in slots.items()
        }
        if whole.contradicted >= self._bounds["refused"]:
            weighed |= dict.fromkeys(("additions", "complete"), _CONTRADICTED)
        return weighed

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> dict[str, NDArray[np.float32]]:
        texts = [[self._splitter.split(text) for text in pair] for pair in pairs]
        self._encode_all([text for pair in pairs for text in pair])
        matches = [shared_stems(*pair) for pair in texts]
        sides = [
            Rows.of([self._encoded[pair[side]] for pair in pairs], [own[side] for own in matches])
            for side in (0, 1)
        ]
        joined = join_rows([self._arithmetic.aligned(sides[side], sides[1 - side], side) for side in (0, 1)])
        pooled = self._arithmetic.pooled(joined)
        return {
            name: self._arithmetic.linear(f"heads.{name}", pooled[:, index])
            for index, name in enumerate(self._heads)
        }

    def _encode_all(self, texts: Sequence[str]) -> None:
        """Encode what was not encoded yet, texts of similar length together."""
        if len(self._encoded) > 50_000:
            self._encoded.clear()
        missing = [text for text in dict.fromkeys(texts) if text not in self._encoded]
        missing.sort(key=lambda text: len(self._splitter.split(text).pieces))
        for start in range(0, len(missing), _BATCH_SIZE):
            batch = missing[start : start + _BATCH_SIZE]
            pieces = [self._splitter.split(text) for text in batch]
            vectors = self._encode(pieces)
            for text, own, row in zip(batch, pieces, vectors, strict=True):
                self._encoded[text] = row[: len(own.pieces)].copy()

    def _encode(self, texts: Sequence[PieceText]) -> NDArray[np.float32]:
        padding, first, last = self._ends
        numbers = pad([(first, *text.pieces, last) for text in texts], padding)
        encoded = self._arithmetic.encode(numbers, numbers != padding)
        # Between the two marks.
        return self._arithmetic.linear("project", encoded[:, 1:-1])


def _entailment(row: Sequence[float] | NDArray[np.float64]) -> Entailment:
    """From the probabilities of contradicted, neutral, entailed, not stated: a slot that is not stated is neutral."""
    contradicted, neutral, entailed, not_stated = (float(value) for value in row)
    return Entailment(entailed, contradicted, neutral + not_stated)


def _neutral(slot: Entailment) -> Entailment:
    return Entailment(0.0, slot.contradicted, slot.neutral + slot.entailed)


@lru_cache(maxsize=1)
def load_reference() -> ReferenceEntailment:
    """The model that comes with ARES."""
    with as_file(files("annotators.grade.entailment").joinpath(FILE)) as path:
        return read_reference(str(path))


def read_reference(path: str) -> ReferenceEntailment:
    """A model that `benchmarks.entailment.train` has written.

    Raises:
        OSError: The file cannot be read.
    """
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # The hash of the numbers, so that a file written again is the same model.
    digest = short_hash(
        [
            *(metadata[name] for name in ("pieces", "heads", "bounds")),
            *(f"{name}:{stored[name].tobytes().hex()[:4096]}" for name in sorted(stored)),
        ]
    )
    heads, bounds = json.loads(metadata["heads"]), json.loads(metadata["bounds"])
    return ReferenceEntailment(_unpacked(stored), metadata["pieces"].split(" "), heads, bounds, digest)


def _unpacked(stored: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.float32]]:
    """Weights as float32: those of eight bits times the scale of their row."""
    unpacked = {}
    for name, values in stored.items():
        if not name.endswith(".scale"):
            scale = stored.get(f"{name}.scale")
            numbers = values.astype("float32")
            unpacked[name] = numbers if scale is None else numbers * scale.astype("float32")[:, None]
    return unpacked
