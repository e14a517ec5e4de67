"""How well text models tell whether two values of a slot mean the same, on pairs written before any was tried.

python -m benchmarks.slot_comparison --sentences FOLDER --chat FOLDER/FILE.gguf

FOLDER has a sentence encoder of transformers, as a package of the Python index carries it; the GGUF file a chat model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_THRESHOLD = 0.7
_QUESTION = 'Do "{}" and "{}" mean the same thing? Answer yes or no.'
Pair = tuple[str, str, str, str]
Score = Callable[[str, str], float]


def read_pairs() -> list[Pair]:
    """Slot, two values, and "same" or "different"."""
    import yaml

    document = yaml.safe_load(Path(__file__).with_name("slot_pairs.yaml").read_text("utf-8"))
    return [(slot, first, second, answer) for slot, first, second, answer in document["pairs"]]


def describe_scores(name: str, pairs: Sequence[Pair], scores: Sequence[float], threshold: float) -> str:
    """One row: pairs told rightly, and the area under the curve, which no threshold can raise."""
    same = [score for pair, score in zip(pairs, scores, strict=True) if pair[3] == "same"]
    other = [score for pair, score in zip(pairs, scores, strict=True) if pair[3] != "same"]
    found, wrong = sum(score >= threshold for score in same), sum(score >= threshold for score in other)
    wins = sum((a > b) + 0.5 * (a == b) for a in same for b in other)
    right = found + len(other) - wrong
    area = wins / (len(same) * len(other))
    return f"| {name} | {right}/{len(pairs)} | {found}/{len(same)} | {wrong}/{len(other)} called same | {area:.3f} |"


def load_sentence_encoder(folder: str) -> Score:
    """Cosine of the mean token vectors of two values."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModel.from_pretrained(folder).eval()

    def embed(text: str) -> Any:
        with torch.no_grad():
            vector = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
        return vector / vector.norm()

    return lambda first, second: float(embed(first) @ embed(second))


def load_chat_model(file: str) -> Score:
    """Logarithm of the odds of yes against no."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(Path(file).parent), Path(file).name
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name)
    model = loaded.eval()

    def score(first: str, second: str) -> float:
        messages = [{"role": "user", "content": _QUESTION.format(first, second)}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        with torch.no_grad():
            logits = model(tokenizer(text, return_tensors="pt").input_ids).logits[0, -1]
        yes, no = (tokenizer(word, add_special_tokens=False).input_ids[0] for word in ("Yes", "No"))
        return float(logits[yes] - logits[no])

    return score


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sentences", default="", help="folder of a sentence encoder")
    parser.add_argument("--chat", default="", help="GGUF file of a chat model")
    options = parser.parse_args()
    pairs = read_pairs()
    print("| model | right | same of same | different | AUROC |")
    for path, load, threshold in (
        (options.sentences, load_sentence_encoder, _THRESHOLD),
        (options.chat, load_chat_model, 0.0),
    ):
        if path:
            score = load(path)
            scores = [score(first, second) for _, first, second, _ in pairs]
            print(describe_scores(Path(path).name, pairs, scores, threshold))


if __name__ == "__main__":
    main()
