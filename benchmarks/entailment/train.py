"""Trains the reference entailment model from generated pairs: `python -m benchmarks.entailment.train --out FILE`."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from annotators.grade.entailment.words import WordArrays, encode_pairs, split_words
from benchmarks.entailment.labels import SLOTS
from benchmarks.entailment.lexicon import Lexicon
from benchmarks.entailment.network import Network
from benchmarks.entailment.pairs import Pair, PairMaker
from benchmarks.entailment.start_vectors import start_vectors

_READING = {"outcome": ("success", "failure", "attempt"), "negated": (False, True),
            "actor": ("robot", "person", "left", "right")}  # fmt: skip
HEADS = {**dict.fromkeys(SLOTS, 4), **{name: len(classes) for name, classes in _READING.items()}}
_PART = 20_000
_SEEN_OFTEN = 4


def main() -> None:
    """Generate, train, calibrate and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=110_000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    start = time.process_time()
    rows = _make_rows(args.pairs, args.seed)
    vocabulary = _vocabulary(rows)
    print(
        f"{len(rows)} pairs, {len(vocabulary)} words, {time.process_time() - start:.0f} processor seconds",
        flush=True,
    )
    network = Network(torch.from_numpy(start_vectors(Lexicon(), vocabulary, args.seed)), HEADS)
    _fit(network, _encode(rows, vocabulary), args.epochs, args.seed)
    temperatures = _calibrate(network, _encode(_make_rows(_PART, args.seed + 90_001), vocabulary))
    write_model(args.out, network, vocabulary, temperatures)
    print(f"{time.process_time() - start:.0f} processor seconds in all")


Row = tuple[str, str, tuple[int, ...]]


def make_row(pair: Pair) -> Row:
    """Texts and labels of a pair, those of its reading included."""
    caption = pair.caption
    reading = (caption.outcome, caption.is_negated, caption.actor)
    return pair.observed, pair.claimed, (
        *pair.labels,
        *(classes.index(value) for classes, value in zip(_READING.values(), reading, strict=True)),
    )  # fmt: skip


def _make_rows(count: int, seed: int) -> list[Row]:
    """So many rows by all processors; the same for the same seed."""
    jobs = [(seed * 1_000_003 + part, min(_PART, count - part * _PART)) for part in range(-(-count // _PART))]
    with get_context("spawn").Pool() as pool:
        return [row for rows in pool.imap(_make_part, jobs) for row in rows]


def _make_part(job: tuple[int, int]) -> list[Row]:
    seed, count = job
    maker = PairMaker(Lexicon(), seed)
    return [make_row(maker.pair()) for _ in range(count)]


def _vocabulary(rows: Sequence[Row]) -> dict[str, int]:
    """Numbers of the words from 2; words of no language are rare."""
    counts = Counter(word for row in rows for text in row[:2] for word in split_words(text))
    often = sorted(word for word, count in counts.items() if count >= _SEEN_OFTEN)
    return {word: number for number, word in enumerate(often, 2)}


Batch = tuple[WordArrays, NDArray[Any]]


def _encode(rows: Sequence[Row], vocabulary: dict[str, int], size: int = 128) -> list[Batch]:
    """Batches of rows of similar length."""
    ordered = sorted(rows, key=lambda row: (len(split_words(row[0])) + len(split_words(row[1])), row))
    return [
        (encode_pairs([row[:2] for row in part], vocabulary), np.array([row[2] for row in part]))
        for part in (ordered[start : start + size] for start in range(0, len(ordered), size))
    ]


def _fit(network: Network, batches: Sequence[Batch], epochs: int, seed: int) -> None:
    dice, steps = random.Random(seed), epochs * len(batches)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.05)
    network.train()
    total, begun = 0.0, time.process_time()
    for step, (arrays, labels) in enumerate(_shuffled(batches, epochs, dice), 1):
        logits = network(*_tensors(arrays))
        loss = _loss(logits, torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += float(loss.detach())
        if step % 50 == 0:
            print(f"{step}/{steps}: loss {total / 50:.4f}, {time.process_time() - begun:.0f} s", flush=True)
            total = 0.0


def _shuffled(batches: Sequence[Batch], epochs: int, dice: random.Random) -> Iterator[Batch]:
    for _ in range(epochs):
        yield from dice.sample(batches, len(batches))


def _tensors(arrays: WordArrays) -> list[Tensor]:
    return [
        torch.from_numpy(array) for array in (arrays.words, arrays.sides, arrays.positions, arrays.matches)
    ]


def _loss(logits: dict[str, Tensor], labels: Tensor) -> Tensor:
    losses = [nn.functional.cross_entropy(logits[name], labels[:, index]) for index, name in enumerate(HEADS)]
    return torch.stack(losses).mean()


def _calibrate(network: Network, batches: Sequence[Batch]) -> list[float]:
    """The temperature of each head that makes its probabilities fit new pairs best."""
    network.eval()
    with torch.no_grad():
        outputs = [network(*_tensors(arrays)) for arrays, _ in batches]
    labels = torch.from_numpy(np.concatenate([labels for _, labels in batches]))
    options = [0.8 + 0.1 * step for step in range(23)]
    chosen = []
    for index, name in enumerate(HEADS):
        logits = torch.cat([output[name] for output in outputs])
        losses = [float(nn.functional.cross_entropy(logits / option, labels[:, index])) for option in options]
        chosen.append(options[int(np.argmin(losses))])
        right = (logits.argmax(dim=1) == labels[:, index]).float().mean()
        print(f"{name}: right {right:.4f}, loss {min(losses):.4f}, temperature {chosen[-1]:.1f}")
    return chosen


def write_model(
    path: Path, network: Network, vocabulary: dict[str, int], temperatures: Sequence[float]
) -> None:
    """Write a network in half precision, with its words and heads."""
    from safetensors.numpy import save_file

    tensors = {name: value.numpy().astype(np.float16) for name, value in network.state_dict().items()}
    tensors["temperatures"] = np.array(temperatures, dtype=np.float32)
    words = sorted(vocabulary, key=lambda word: vocabulary[word])
    metadata = {"words": json.dumps(words), "heads": json.dumps(HEADS), "license": "CC0-1.0"}
    save_file(tensors, path, metadata=metadata)
    print(f"{path}: {path.stat().st_size} bytes, {sum(value.size for value in tensors.values())} numbers")


if __name__ == "__main__":
    main()
