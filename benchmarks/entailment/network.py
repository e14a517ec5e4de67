"""The network that is trained: an encoder of each text, words aligned with the other text, a head for each slot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

# How much more the most similar word of the other text counts than the others.
SHARPNESS = 10.0
WIDTH = 192


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """N pairs of texts, each side (N, T): pieces, whether a piece is there, whether the other text has its word."""

    pieces: tuple[Tensor, Tensor]
    present: tuple[Tensor, Tensor]
    matches: tuple[Tensor, Tensor]


class Layer(nn.Module):
    """A transformer layer; normalised before each part, or after it as in BERT."""

    def __init__(self, width: int, heads: int, hidden: int, after: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.after = heads, after
        epsilon = 1e-12 if after else 1e-5
        self.norm_a, self.norm_b = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """(N, T, D) to (N, T, D); `bias` (N, 1, 1, T) is -inf at the padding."""
        if self.after:
            x = self.norm_a(x + self.dropout(self._mix(x, bias)))
            result: Tensor = self.norm_b(x + self.dropout(self._widen(x)))
            return result
        x = x + self.dropout(self._mix(self.norm_a(x), bias))
        widened: Tensor = self.dropout(self._widen(self.norm_b(x)))
        return x + widened

    def _mix(self, x: Tensor, bias: Tensor) -> Tensor:
        count, length, width = x.shape
        parts = self.qkv(x).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(count, length, width))
        return result

    def _widen(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(nn.functional.gelu(self.up(x), approximate="tanh"))
        return result


class Encoder(nn.Module):
    """The first layers of a BERT encoder, with the vectors of some pieces."""

    def __init__(
        self, pieces: int, layers: int, width: int = 384, heads: int = 12, positions: int = 64
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(pieces, width)
        self.position = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width, True, 0.1) for _ in range(layers))

    def forward(self, pieces: Tensor, present: Tensor) -> Tensor:
        """Pieces (N, T) between the two marks of BERT to vectors (N, T, D)."""
        x: Tensor = self.norm(self.word(pieces) + self.position.weight[: pieces.shape[1]])
        bias = _bias(present)[:, None, None]
        for layer in self.layers:
            x = layer(x, bias)
        return x


class Network(nn.Module):
    """Pairs of texts to the logits of each head.

    Args:
        encoder: Encodes each text.
        heads: Classes by the name of a head.
        layers: Number of layers that see both texts.
    """

    def __init__(
        self, encoder: Encoder, heads: Mapping[str, int], layers: int = 2, width: int = WIDTH
    ) -> None:
        super().__init__()
        self.encoder = encoder
        inside = encoder.word.weight.shape[1]
        self.project = nn.Linear(inside, width)
        nn.init.orthogonal_(self.project.weight)
        self.side, self.match = nn.Embedding(2, width), nn.Embedding(2, width)
        for table in (self.side, self.match):
            nn.init.normal_(table.weight, std=0.3)
        self.aligned = nn.Linear(2 * width + 1, width)
        self.layers = nn.ModuleList(Layer(width, 6, 2 * width, False, 0.1) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Parameter(torch.randn(len(heads), width) * 0.1)
        self.heads = nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in heads.items()})

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Logits (N, C) by head."""
        encoded = [
            self.encode(pieces, present) for pieces, present in zip(batch.pieces, batch.present, strict=True)
        ]
        return self.compare(encoded, batch)

    def encode(self, pieces: Tensor, present: Tensor) -> Tensor:
        """(N, T) pieces to (N, T - 2, WIDTH): the marks at both ends are cut off, and the rest is projected."""
        vectors = self.encoder(pieces, present)
        projected: Tensor = self.project(vectors[:, 1:-1])
        return projected

    def compare(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Logits by head from the projected vectors (N, T, WIDTH) of both texts."""
        inner = [present[:, 2:] for present in batch.present]
        sides = []
        for side in (0, 1):
            vectors, other = encoded[side], encoded[1 - side]
            x = vectors + self.side.weight[side] + self.match(batch.matches[side])
            sides.append(x + self.aligned(align(vectors, other, inner[1 - side])))
        x, present = torch.cat(sides, 1), torch.cat(inner, 1)
        bias = _bias(present)
        for layer in self.layers:
            x = layer(x, bias[:, None, None])
        x = self.norm(x)
        weights = torch.softmax(self.queries @ x.transpose(1, 2) + bias[:, None], dim=-1)
        pooled = weights @ x
        return {name: head(pooled[:, index]) for index, (name, head) in enumerate(self.heads.items())}


def align(vectors: Tensor, other: Tensor, present: Tensor) -> Tensor:
    """For each word the nearest of the other text, what differs, and the greatest cosine: (N, T, 2 D + 1)."""
    cosines = nn.functional.normalize(vectors, dim=-1, eps=1e-4) @ nn.functional.normalize(
        other, dim=-1, eps=1e-4
    ).transpose(1, 2)
    cosines = cosines.masked_fill(~present[:, None], -1.0)
    nearest = torch.softmax(SHARPNESS * cosines, dim=-1) @ other
    return torch.cat([nearest, vectors - nearest, cosines.amax(dim=-1, keepdim=True)], dim=-1)


def _bias(present: Tensor) -> Tensor:
    return torch.zeros(present.shape).masked_fill(~present, -1e9)


def load_encoder(folder: Path, layers: int, pieces: Sequence[int]) -> Encoder:
    """The first layers of the BERT encoder in a folder (model.safetensors), with the vectors of the given pieces."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    tensors = {name.removeprefix("bert."): value for name, value in tensors.items()}
    config = json.loads((folder / "config.json").read_text("utf-8"))
    encoder = Encoder(len(pieces), layers, config["hidden_size"], config["num_attention_heads"])
    state = {
        "word.weight": tensors["embeddings.word_embeddings.weight"][list(pieces)]
        + tensors["embeddings.token_type_embeddings.weight"][0],
        "position.weight": tensors["embeddings.position_embeddings.weight"][
            : encoder.position.num_embeddings
        ],
    }
    for kind in ("weight", "bias"):
        state[f"norm.{kind}"] = tensors[f"embeddings.LayerNorm.{kind}"]
        for layer in range(layers):
            own = f"encoder.layer.{layer}."
            state[f"layers.{layer}.qkv.{kind}"] = torch.cat(
                [tensors[f"{own}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            )
            for name, there in (
                ("out", "attention.output.dense"), ("norm_a", "attention.output.LayerNorm"),
                ("up", "intermediate.dense"), ("down", "output.dense"), ("norm_b", "output.LayerNorm"),
            ):  # fmt: skip
                state[f"layers.{layer}.{name}.{kind}"] = tensors[f"{own}{there}.{kind}"]
    encoder.load_state_dict(state)
    return encoder
