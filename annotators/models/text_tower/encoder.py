"""Text vectors from a stored text tower, without the library of its model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from annotators.models.text_tower.file import MappedWeights, read_configs
from annotators.models.text_tower.forward import TextTower
from annotators.models.text_tower.tokenizer import TextTokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StoredTextEncoder:
    """Fills the protocol `ares.store.vectors.TextEncoder`.

    Args:
        tower: Text tower.
        tokenizer: Its tokenizer.
    """

    def __init__(self, tower: TextTower, tokenizer: TextTokenizer) -> None:
        self._tower, self._tokenizer = tower, tokenizer

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N > 0 texts; longer texts are cut to the model's context."""
        import numpy as np
        from threadpoolctl import threadpool_limits

        # The matrices are small: on a busy machine a second thread of BLAS waits for its turn, five times as long.
        with threadpool_limits(1, "blas"):
            return np.stack([self._tower.encode(self._tokenizer.token_ids(text)) for text in texts])


def open_text_encoder(path: Path) -> StoredTextEncoder:
    """Open a file that `write_tower` wrote. Raises ModelError when it is damaged or of another version."""
    weights = MappedWeights(path)
    tower, tokenizer = read_configs(weights)
    return StoredTextEncoder(
        TextTower(tower, weights), TextTokenizer(tokenizer, weights.tokenizer_document())
    )
