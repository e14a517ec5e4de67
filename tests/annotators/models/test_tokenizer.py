"""Token ids are those of open_clip's tokenizers, for any text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from ares_annotators.models.text_tokenizer import TextTokenizer
from ares_annotators.models.text_tower_parts import read_tokenizer_parts

_PIECES = [
    "open", "the", "drawer", "'s", "'S", "don't", " ", "  ", "\t", "\n", "<start_of_text>", "<END_OF_TEXT>",
    "<end_of_text>", "&amp;", "&amp;amp;", "&NTILDE;", "&lt;", "_", "ſ", "İ", "ß", "½", "٣", "é", "e\u0301", "ﬁ", "Ｗ",
    "“", "’", "â€™", "打开", "🤖", "👍🏽", "\u200b", "\xa0", "\x1b[1m", "\x85", "12345", "!!", "...", "<", "#",
]  # fmt: skip
_TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=120),
    st.lists(st.sampled_from(_PIECES), max_size=30).map("".join),
)


@cache
def _tokenizers(cleaning: str) -> tuple[object, TextTokenizer]:
    from open_clip.tokenizer import SimpleTokenizer

    original = SimpleTokenizer(context_length=32, clean=cleaning)
    return original, TextTokenizer(*read_tokenizer_parts(original))


@pytest.mark.parametrize("cleaning", ["lower", "canonicalize", "whitespace"])
@given(text=_TEXTS)
@example(text="")
@example(text="pick up the red cube " * 20)
@example(text="!!<start_of_text>a<END_OF_TEXT>")
@settings(max_examples=150)
def test_ids_equal_those_of_open_clip(cleaning: str, text: str) -> None:
    original, ours = _tokenizers(cleaning)
    assert ours.token_ids(text) == original(text)[0].tolist()  # type: ignore[operator]


@pytest.fixture(scope="module")
def hub_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer as the hub has them, trained on a few sentences: lower case, start and end of a text, padding."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    inner.train_from_iterator(
        ["open the drawer", "close it, please", "pick up the mug"] * 5,
        trainers.WordPieceTrainer(vocab_size=200, special_tokens=special),
    )
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("strip_separator", [False, True])
@given(text=_TEXTS)
@example(text="open the drawer " * 20)
def test_ids_equal_those_of_a_tokenizer_of_the_hub(
    hub_tokenizer: Path, strip_separator: bool, text: str
) -> None:
    original, ours = _hub_tokenizers(hub_tokenizer, strip_separator)
    assert ours.token_ids(text) == original([text])[0].tolist()  # type: ignore[operator]


@cache
def _hub_tokenizers(folder: Path, strip_separator: bool) -> tuple[object, TextTokenizer]:
    from open_clip.tokenizer import HFTokenizer

    original = HFTokenizer(str(folder), context_length=16, strip_sep_token=strip_separator)
    return original, TextTokenizer(*read_tokenizer_parts(original))
