"""Syntax of filters: the parse tree of one SQL condition, its limits, and the functions that it may call."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from ares.store.filters.diagnostics import filter_error

if TYPE_CHECKING:
    from sqlglot.expressions import Expr
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer

# Characters of a filter, its words and signs, and characters of one of them; a list of 20,000 ids is within them.
MAX_CHARACTERS, MAX_TOKENS, MAX_TOKEN = 400_000, 60_000, 10_000
# Brackets and prefix operators around a token; the parser takes 25 Python frames for each, of the 1,000 there are.
MAX_NESTING = 20
# Kinds of the arguments ("?": optional, "...": any number of one kind), kind of the result, names. None returns more
# text than it gets, takes more than linear time, or changes its answer from one run to the next.
_SIGNATURES = (
    ("text", "text", "lower upper reverse"),
    ("text text?", "text", "btrim ltrim rtrim"),
    ("text number", "text", "left right"),
    ("text text number", "text", "split_part"),
    ("text", "number", "length char_length character_length octet_length"),
    ("text text", "number", "strpos instr"),
    ("text text", "bool", "starts_with ends_with contains"),
    ("text pattern pattern?", "bool", "regexp_like"),
    ("text pattern pattern?", "list", "regexp_match"),
    ("number", "number", "abs sqrt exp ln log log2 log10 signum"),
    ("number number?", "number", "round trunc"),
    ("number number", "number", "power pow nanvl"),
    ("number", "bool", "isnan iszero"),
    ("pattern time", "number", "date_part datepart"),
    ("pattern time", "time", "date_trunc"),
    ("text", "time", "to_timestamp to_date"),
    ("number", "time", "to_timestamp_seconds to_timestamp_millis to_timestamp_micros"),
    ("list", "number", "cardinality array_length list_length"),
    ("list", "bool", "empty array_empty"),
    ("list text", "bool", "array_has array_contains list_has list_contains"),
    ("list text", "number", "array_position list_position"),
    ("list list", "bool", "array_has_any array_has_all list_has_any list_has_all"),
    ("same same...", "same", "coalesce nullif greatest least"),
)
# Kinds of the arguments, and of the result, by the name of the function.
FUNCTIONS = {name: (kinds.split(), result) for kinds, result, names in _SIGNATURES for name in names.split()}
# Words and signs of the language by the names of their tokens.
_KEYWORDS = {
    "DCOLON": "::",
    "EQ": "==",
    "NEQ": "<> !=",
    "LTE": "<=",
    "GTE": ">=",
    "ALIAS": "AS",
    "TEXT": "STRING",
}
_KEYWORDS |= {name: name for name in ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "NULL")}
_KEYWORDS |= {name: name for name in ("INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")}
_KEYWORDS |= {name: name for name in ("TRUE", "FALSE")}
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_TOKEN = re.compile(rf"{_QUOTED.pattern}|\w+|[^\w\s]")
# Lance reads a condition up to its first ';', and ends with a panic at a placeholder; a comment could hide the
# parenthesis that closes the condition.
_FORBIDDEN = re.compile(r"[;?$]|!(?!=)|(?<!:):(?!:)|--|/\*|\{#")
_BRACKETS = re.compile(r"(?:(?:\bNOT\b|-)\s*)+|[()\[\]]", re.IGNORECASE)


def mask_quotes(where: str) -> str:
    """The filter with spaces for all that is quoted; offsets stay the same."""
    return _QUOTED.sub(lambda quoted: " " * len(quoted[0]), where)


def parse_condition(where: str) -> Expr:
    """The tree of one SQL condition, whatever its columns. Raises FilterError."""
    from sqlglot.errors import ParseError
    from sqlglot.expressions import Condition

    _check_text(where)
    tokenizer_class, parser_class = _grammar()
    tokens, parser = tokenizer_class().tokenize(where), parser_class()
    try:
        tree = parser.parse_into(Condition, tokens, where)[0]
    except (ParseError, RecursionError):
        tree = None
    if tree is not None:
        return tree
    if parser._index >= len(tokens):
        raise filter_error(where, "a value or a condition is missing at the end", len(where.rstrip()))
    token = tokens[parser._index]
    raise filter_error(where, f"unexpected {where[token.start : token.end + 1]!r}", token.start)


def _check_text(where: str) -> None:
    if len(where) > MAX_CHARACTERS:
        raise filter_error(where, f"longer than {MAX_CHARACTERS} characters", 0)
    for number, token in enumerate(_TOKEN.finditer(where)):
        if number == MAX_TOKENS:
            raise filter_error(where, f"more than {MAX_TOKENS} words and signs", token.start())
        if len(token[0]) > MAX_TOKEN:
            raise filter_error(where, f"a text or a word has at most {MAX_TOKEN} characters", token.start())
    masked = mask_quotes(where)
    if quote := re.search("['\"`]", masked):
        raise filter_error(where, "this quote is never closed", quote.start())
    if sign := _FORBIDDEN.search(masked):
        message = "a filter is one condition without ';', '?', '$', '!', ':' and comments"
        raise filter_error(where, message, sign.start())
    _check_brackets(where, masked)


def _check_brackets(where: str, masked: str) -> None:
    opened: list[int] = []
    for match in _BRACKETS.finditer(masked):
        depth = len(opened) + len(re.findall("-|not", match[0], re.IGNORECASE))
        if match[0] in ")]" and not opened:
            raise filter_error(where, f"this {match[0]!r} closes nothing", match.start())
        if match[0] in ")]":
            opened.pop()
        elif depth >= MAX_NESTING:
            raise filter_error(where, f"nested more than {MAX_NESTING} deep", match.start())
        elif match[0] in "([":
            opened.append(match.start())
    if opened:
        raise filter_error(where, f"this {where[opened[-1]]!r} is never closed", opened[-1])


@cache
def _grammar() -> tuple[type[Tokenizer], type[Parser]]:
    """A tokenizer with few keywords, so that any other word can name a column, and a parser that rewrites nothing."""
    from sqlglot import TokenType, parser, tokens
    from sqlglot.expressions import Boolean, Null

    class FilterTokenizer(tokens.Tokenizer):
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`", '"']
        STRING_ESCAPES: ClassVar = ["'"]
        COMMENTS: ClassVar = []
        KEYWORDS: ClassVar = {
            sign: TokenType[name] for name, signs in _KEYWORDS.items() for sign in signs.split()
        }

    def cast(self: parser.Parser) -> Expr:
        word = self._tokens[self._index - 2]
        return self._parse_cast(strict=word.text.upper() == "CAST").update_positions(word)

    class FilterParser(parser.Parser):
        FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {"CAST": cast, "TRY_CAST": cast}
        # With the positions of their tokens.
        PRIMARY_PARSERS: ClassVar = {
            **parser.Parser.PRIMARY_PARSERS,
            TokenType.NULL: lambda self, token: self.expression(Null(), token),
            TokenType.TRUE: lambda self, token: self.expression(Boolean(this=True), token),
            TokenType.FALSE: lambda self, token: self.expression(Boolean(this=False), token),
        }

    return FilterTokenizer, FilterParser
