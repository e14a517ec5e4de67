"""The network that is trained: words aligned with those of the other text, two layers, a head for each slot."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from annotators.grade.entailment.words import MOST_WORDS, PADDING, SHARPNESS, UNKNOWN


class Layer(nn.Module):
    """A transformer layer; normalised before each part."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_a, self.norm_b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """(N, T, D) to (N, T, D); `bias` (N, 1, 1, T) is -inf at the padding."""
        count, length, width = x.shape
        parts = self.qkv(self.norm_a(x)).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(count, length, width)))
        added: Tensor = self.dropout(self.down(torch.relu(self.up(self.norm_b(x)))))
        return x + added


def align(vectors: Tensor, words: Tensor, sides: Tensor) -> Tensor:
    """For each word the most similar words of the other text: (N, T, D + 1), the last the greatest cosine."""
    unit = nn.functional.normalize(vectors, dim=-1, eps=1e-4)
    cosines = unit @ unit.transpose(1, 2)
    hidden = (sides[:, :, None] == sides[:, None, :]) | (words <= UNKNOWN)[:, None, :]
    cosines = cosines.masked_fill(hidden, -1.0)
    weights = torch.softmax(SHARPNESS * cosines, dim=-1)
    return torch.cat([weights @ vectors, cosines.amax(dim=-1, keepdim=True)], dim=-1)


class Network(nn.Module):
    """Pairs of texts to the logits of each head.

    Args:
        start: Vectors (words, D) that training starts from.
        heads: Classes by the name of a head.
        layers: Number of layers.
    """

    def __init__(self, start: Tensor, heads: Mapping[str, int], layers: int = 2) -> None:
        super().__init__()
        width = start.shape[1]
        self.word = nn.Embedding.from_pretrained(start, freeze=False, padding_idx=PADDING)  # type: ignore[no-untyped-call]
        self.side, self.match = nn.Embedding(2, width), nn.Embedding(2, width)
        self.position = nn.Embedding(MOST_WORDS, width)
        for table in (self.side, self.match, self.position):
            nn.init.normal_(table.weight, std=0.3)
        self.aligned = nn.Linear(width + 1, width)
        self.layers = nn.ModuleList(Layer(width, 4, 2 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Parameter(torch.randn(len(heads), width) * 0.1)
        self.heads = nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in heads.items()})

    def forward(self, words: Tensor, sides: Tensor, positions: Tensor, matches: Tensor) -> dict[str, Tensor]:
        """Arrays (N, T) of `WordArrays` to logits (N, C) by head."""
        vectors = self.word(words)
        x = vectors + self.side(sides) + self.position(positions) + self.match(matches)
        x = x + self.aligned(align(vectors, words, sides))
        bias = torch.zeros(words.shape, dtype=x.dtype).masked_fill(words == PADDING, float("-inf"))[
            :, None, None
        ]
        for layer in self.layers:
            x = layer(x, bias)
        x = self.norm(x)
        weights = torch.softmax(self.queries @ x.transpose(1, 2) + bias[:, 0], dim=-1)
        pooled = weights @ x
        return {name: head(pooled[:, index]) for index, (name, head) in enumerate(self.heads.items())}
