"""Checks the condition of a filter before Lance reads it, and joins conditions so that none reaches into another."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, ClassVar, NoReturn

from ares.errors import FilterError
from ares.registry import column_of, suggest_column

if TYPE_CHECKING:
    from sqlglot.expressions import Expr
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer


# Of a longer filter, the error shows so many characters before and after the fault.
_EXCERPT = 200
_MAX_COLUMNS = 24
# What Lance adds around the cause: kinds of errors, positions in its source code.
_NOISE = re.compile(
    r"(Invalid user input|Invalid input|LanceError\(\w+\)|Error during planning|Schema error|External error"
    r"|(Query )?Execution error|Internal error|Arrow error|Optimizer rule '\w+' failed|caused by"
    r"|Error (parsing|tokenizing) statement|Error (optimizing sql filter|resolving filter expression)"
    r"|Error applying filter expression to batch): ?"
    r"|SELECT 1 FROM t WHERE|sql parser error: ?"
    r"|,? ?\S*\.(rs|cargo)\S*:\d+:\d+| at Line: \d+, Column: \d+"
)
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
    ("name", "bool", "in_set tagged"),
    ("", "bool", "reviewed"),
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
    ("number number polygon", "bool", "in_polygon"),
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
# Words that can be the name of no column.
FILTER_WORDS = frozenset(
    ("and", "or", "not", "in", "between", "like", "ilike", "is", "null", "true", "false")
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_TOKEN = re.compile(rf"{_QUOTED.pattern}|\w+|[^\w\s]")
# Lance reads a condition up to its first ';', and ends with a panic at a placeholder; a comment could hide the
# parenthesis that closes the condition.
_FORBIDDEN = re.compile(r"[;?$]|!(?!=)|(?<!:):(?!:)|--|/\*|\{#")
_NESTING = re.compile(r"(?:(?:\bNOT\b|-)\s*)+|[()\[\]]", re.IGNORECASE)
# Corners of a polygon: each is compared with every row. Beyond the largest coordinate a float holds no fractions.
MIN_CORNERS, MAX_CORNERS, MAX_COORDINATE = 3, 64, 1e12
_POLYGON = re.compile(r"\bin_polygon\s*\(([^()]*)\)", re.IGNORECASE)
# Levels of the tree; a chain of AND and OR is one.
MAX_DEPTH = 60
# Characters of a text that a function may copy into every row or compile as a pattern.
MAX_PATTERN = 200
# Counted repetitions in a regular expression, multiplied; its engine unrolls them.
MAX_REPETITIONS = 1_000
# Lists of values for one column: each further one makes the filter longer than the one before.
MAX_LISTS = 100
_CAST_KINDS = {"INT": "number", "BIGINT": "number", "FLOAT": "number", "DOUBLE": "number", "TEXT": "text"}
_KIND_NAMES = {"number": "a number", "text": "text", "bool": "true or false", "list": "a list of text"}


def filter_error(where: str, message: str, position: int) -> FilterError:
    """The error for a fault at an offset of a filter; of a long filter it shows the part around the fault."""
    start = max(0, position - _EXCERPT) if len(where) > 2 * _EXCERPT else 0
    excerpt = where[start : start + 2 * _EXCERPT]
    return FilterError(
        "the filter cannot be read", f"{excerpt!r}: {message}", where=excerpt, position=position - start
    )


def unknown_column(name: str, columns: Collection[str]) -> str:
    """What is wrong with a name that is not a column, and the columns, nearest names first."""
    name = name[:100]
    ordered = sorted(
        columns, key=lambda column: (-SequenceMatcher(None, name.lower(), column).ratio(), column)
    )
    more = ["..."] if len(ordered) > _MAX_COLUMNS else []
    hint = suggest_column(name, columns)
    if name.lower() in ("set", "sets"):
        hint = "the members of a set are in_set('NAME'); "
    if not hint and "metadata" in columns:
        hint = f'a value of the source is in metadata: contains(metadata, \'"{name}": "VALUE"\'); '
    return f"no column named {name!r}: {hint}the columns are {', '.join([*ordered[:_MAX_COLUMNS], *more])}"


def suggest_nearest_name(name: str, names: Collection[str]) -> str:
    """ ", did you mean 'X'?" for the nearest of some names, or ""."""
    nearest = get_close_matches(name[:100].lower(), names, n=1)
    return f", did you mean {nearest[0]!r}?" if nearest else ""


def make_engine_filter_error(where: str, error: Exception) -> FilterError:
    """The error for a filter that passed the checks, but that Lance could not plan or evaluate."""
    cause = " ".join(str(error).split())
    # Lance repeats the filter in the parentheses that it was planned in.
    for repeated in (f"({where}\n): ", f"({where}\n) "):
        cause = cause.replace(" ".join(repeated.split()), "", 1)
    cause = " ".join(_NOISE.sub("", cause).split()).strip(" .,:")
    cause = cause.removeprefix("(").removesuffix(")")[:200] if cause.startswith("(") else cause[:200]
    return filter_error(where, cause, _engine_position(where, cause.lower()))


def _engine_position(where: str, cause: str) -> int:
    """Offset of a literal that the cause quotes, else of the first sign."""
    for literal in re.finditer(r"'((?:[^']|'')+)'", where):
        if f"'{literal[1].lower()}'" in cause or f'"{literal[1].lower()}"' in cause:
            return literal.start()
    return len(where) - len(where.lstrip())


_KEYWORDS |= {name: name for name in ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "IS", "NULL")}
_KEYWORDS |= {name: name for name in ("INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")}
_KEYWORDS |= {name: name for name in ("TRUE", "FALSE")}


def mask_quotes(where: str) -> str:
    """The filter with spaces for all that is quoted; offsets stay the same."""
    return _QUOTED.sub(lambda quoted: " " * len(quoted[0]), where)


def parse_condition(where: str) -> Expr:
    """The tree of one SQL condition, whatever its columns. Raises FilterError."""
    from sqlglot.errors import ParseError
    from sqlglot.expressions import Condition

    _check_text(where)
    tokenizer_class, parser_class = _tokenizer_and_parser()
    tokens, parser = tokenizer_class().tokenize(where), parser_class()
    fault = ""
    try:
        if (tree := parser.parse_into(Condition, tokens, where)[0]) is not None:
            return tree
    except ParseError as error:
        fault = str(error.errors[0]["description"])
    except RecursionError:
        raise filter_error(where, "nested too deep", 0) from None
    if parser._index >= len(tokens):
        sign = re.fullmatch(r"Expect\w+ (\S|AS)(?: after CAST)?", fault)
        missing = repr(sign[1]) if sign else "a type" if "type" in fault.lower() else "a value or a condition"
        raise filter_error(where, f"{missing} is missing at the end", len(where.rstrip()))
    token = tokens[parser._index]
    text = where[token.start : token.end + 1]
    word = {"&": "; write AND", "|": "; write OR"}.get(text[:1], "")
    raise filter_error(where, f"unexpected {text!r}{word}", token.start)


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
    _check_nesting(where, masked)


def _check_nesting(where: str, masked: str) -> None:
    opened = 0
    for match in _NESTING.finditer(masked):
        depth = opened + len(re.findall("-|not", match[0], re.IGNORECASE))
        if depth >= MAX_NESTING and match[0] not in ")]":
            raise filter_error(where, f"nested more than {MAX_NESTING} deep", match.start())
        opened += (match[0] in "([") - (match[0] in ")]")


@cache
def _tokenizer_and_parser() -> tuple[type[Tokenizer], type[Parser]]:
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


def parse_polygon(text: str) -> list[tuple[float, float]]:
    """The corners of 'x y, x y, x y'. Raises ValueError for what is not two numbers."""
    pairs = [corner.split() for corner in text.split(",")]
    return [(float(x), float(y)) for x, y in pairs]


def polygon_fault(text: str) -> str:
    """What is wrong with the corners of a polygon, or ""."""
    try:
        corners = parse_polygon(text)
    except ValueError:
        return f"{text[:60]!r} are no corners: give 'x y, x y, x y', two numbers each"
    if not MIN_CORNERS <= len(corners) <= MAX_CORNERS:
        return f"a polygon has {MIN_CORNERS} to {MAX_CORNERS} corners, not {len(corners)}"
    if not all(abs(number) <= MAX_COORDINATE for corner in corners for number in corner):
        return f"a corner has two finite numbers of at most {MAX_COORDINATE:g}"
    return ""


def _expand_polygons(where: str) -> str:
    """The filter with comparisons in place of each checked call of `in_polygon`, since Lance has no such function."""
    parts, end = list[str](), 0
    for call in _POLYGON.finditer(mask_quotes(where)):
        x, y, literal = where[call.start(1) : call.end(1)].split(",", 2)
        parts += [where[end : call.start()], _polygon_sql(x.strip(), y.strip(), literal.strip()[1:-1])]
        end = call.end()
    return "".join([*parts, where[end:]])


def _polygon_sql(x: str, y: str, text: str) -> str:
    """Inside is where a ray to the right crosses an odd number of edges; the box before it spares most rows that."""
    # Lance compares no column of whole numbers with 0.5.
    x, y = f"CAST({x} AS DOUBLE)", f"CAST({y} AS DOUBLE)"
    corners = parse_polygon(text)
    crossings = ["0"]
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        (low_y, low_x), (high_y, high_x) = sorted([(ay, ax), (by, bx)])
        slope = (high_x - low_x) / (high_y - low_y) if high_y > low_y else math.inf
        if math.isfinite(slope):
            crossed = f"{x} < {low_x!r} + ({y} - {low_y!r}) * {slope!r}"
            crossings.append(f"CAST({y} >= {low_y!r} AND {y} < {high_y!r} AND {crossed} AS INT)")
    # Added in pairs: the engine goes down a chain of additions by recursion.
    while len(crossings) > 1:
        pairs = zip(crossings[::2], [*crossings[1::2], "0"], strict=False)
        crossings = [f"({' + '.join(pair)})" for pair in pairs]
    sides = [
        f"{name} >= {min(numbers)!r} AND {name} <= {max(numbers)!r}"
        for name, numbers in zip((x, y), zip(*corners, strict=True), strict=True)
    ]
    return f"({' AND '.join(sides)} AND {crossings[0]} % 2 = 1)"


_CAST_KINDS |= {"BOOLEAN": "bool", "DATE": "time", "TIMESTAMP": "time"}
_KIND_NAMES |= {"time": "a time such as TIMESTAMP '2026-11-21'", "other": "of another type"}


def check_filter(where: str, columns: Mapping[str, str]) -> str:
    """Check a filter; the last results are kept.

    Args:
        where: SQL condition.
        columns: Type of every column: "int64", "float64", "string", "bool", "timestamp", "list<string>" ...

    Returns:
        The filter as Lance has to read it.

    Raises:
        FilterError: It is not a condition, or has something in it that is not allowed.
    """
    return _check_filter(where, tuple(columns.items()))


@lru_cache(maxsize=32)
def _check_filter(where: str, columns: tuple[tuple[str, str], ...]) -> str:
    checker = FilterChecker(where, dict(columns))
    checker.check(parse_condition(where))
    text = checker.text_for_lance()
    return _expand_polygons(text) if checker.has_polygon else text


class FilterChecker:
    """Checks the tree of one filter.

    Args:
        where: The filter.
        columns: Type of every column.
    """

    def __init__(self, where: str, columns: Mapping[str, str]) -> None:
        self._where = where
        self._columns = columns
        self._kinds: dict[int, str] = {}
        # Start, stop and name of each column before a list of values.
        self._lists: list[tuple[int, int, str]] = []
        # Text by start and stop: the names that are written in capitals.
        self._replaced: dict[tuple[int, int], str] = {}
        self.has_polygon = False

    def check(self, tree: Expr) -> None:
        """Raise FilterError for a node that is not allowed, or an operand of the wrong kind."""
        for node, depth in _nodes_with_depth(tree):
            if depth > MAX_DEPTH:
                self._fail(node, f"nested more than {MAX_DEPTH} deep")
            if node.key not in _RULES and node.key not in ("identifier", "datatype"):
                self._fail(node, "this syntax is not allowed in a filter")
        self._require("bool", tree)

    def text_for_lance(self) -> str:
        """The filter as Lance has to read it.

        Lance finds a name in capitals where it compares, but not among the arguments of a function. The second list of
        values of a column, and each further one, gets a separate expression. DataFusion takes two lists of one
        column that share no value for a constant, also where the column has no value. So
        `a NOT IN (1) OR a NOT IN (2)` would return every row.
        """
        counts: dict[str, int] = {}
        for start, stop, name in sorted(self._lists):
            counts[name] = count = counts.get(name, 0) + 1
            if count > MAX_LISTS:
                raise filter_error(self._where, f"more than {MAX_LISTS} lists of values for {name}", start)
            if count > 1:
                self._replaced[start, stop] = f"coalesce({', '.join([f'`{name}`'] * count)})"
        parts, end = list[str](), 0
        for (start, stop), text in sorted(self._replaced.items()):
            parts += [self._where[end:start], text]
            end = stop
        return "".join([*parts, self._where[end:]])

    def _fail(self, node: Expr, message: str) -> NoReturn:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        raise filter_error(self._where, message, min(starts, default=0))

    def _kind(self, node: Expr) -> str:
        """What a node evaluates to: "bool", "number", "text", "time", "list" or "other"."""
        # Computed once, because nested operands would be evaluated twice at every level.
        if id(node) not in self._kinds:
            self._kinds[id(node)] = _RULES[node.key](self, node)
        return self._kinds[id(node)]

    def _require(self, kind: str, *nodes: Expr) -> str:
        for node in nodes:
            if (actual := self._kind(node)) != kind:
                self._fail(node, f"{self._source(node)} is {_KIND_NAMES[actual]}, not {_KIND_NAMES[kind]}")
        return kind

    def _source(self, node: Expr) -> str:
        """How a column or a literal is written."""
        if node.key not in ("column", "literal", "boolean"):
            return "this expression"
        meta = (node.this if node.key == "column" else node).meta
        return self._where[meta["start"] : meta["end"] + 1] if "end" in meta else node.name

    def _logic(self, node: Expr) -> str:
        return self._require("bool", *_chain_operands(node))

    def _paren(self, node: Expr) -> str:
        return self._kind(node.this)

    def _arithmetic(self, node: Expr) -> str:
        return self._require("number", *node.iter_expressions())

    def _like(self, node: Expr) -> str:
        self._require("text", node.this, node.expression)
        return "bool"

    def _comparison(self, node: Expr) -> str:
        return self._compare(*node.iter_expressions())

    def _compare(self, first: Expr, *others: Expr) -> str:
        for other in others:
            swapped = first.key == "literal" or (other.key == "column" and first.key != "column")
            column, value = (other, first) if swapped else (first, other)
            kinds = self._kind(column), self._kind(value)
            type_name = self._columns[self._column_name(column)] if column.key == "column" else ""
            is_fitting = "int" not in type_name or _is_integer(value)
            if kinds[0] != kinds[1] or not is_fitting:
                subject = f"{self._column_name(column)} is {type_name}, to be" if type_name else "it is"
                advice = "a whole number" if "int" in type_name else _KIND_NAMES[kinds[0]]
                self._fail(value, f"{self._source(value)} does not fit: {subject} compared with {advice}")
        return "bool"

    def _is(self, node: Expr) -> str:
        if node.expression.key not in ("null", "boolean"):
            self._fail(node, "IS needs NULL, TRUE or FALSE")
        if self._kind(node.this) != "bool" and node.expression.key == "boolean":
            self._require("bool", node.this)
        return "bool"

    def _in(self, node: Expr) -> str:
        if not node.expressions:
            self._fail(node, "IN needs a list of values")
        if node.this.key == "column":
            meta = node.this.this.meta
            self._lists.append((meta["start"], meta["end"] + 1, self._column_name(node.this)))
        return self._compare(node.this, *node.expressions)

    def _null(self, node: Expr) -> str:
        self._fail(node, "NULL equals nothing: it stands only in IS NULL and IS NOT NULL")

    def _boolean(self, node: Expr) -> str:
        return "bool"

    def _column(self, node: Expr) -> str:
        name = self._column_name(node)
        if self._source(node).startswith('"'):
            advice = "a column without quotes" if name in self._columns else "a text in single quotes"
            self._fail(node, f"{self._source(node)} is in double quotes; write {advice}")
        if name not in self._columns:
            self._fail(node, unknown_column(name, self._columns))
        if node.this.name != name and not node.args.get("table"):
            meta = node.this.meta
            self._replaced[meta["start"], meta["end"] + 1] = f"`{name}`"
        return _column_kind(self._columns[name])

    def _column_name(self, column: Expr) -> str:
        """Name of a column as the table has it: an unquoted name may be in capitals, or that of another library."""
        parts = reversed(list(column.iter_expressions()))
        name = ".".join(part.name if part.args.get("quoted") else part.name.lower() for part in parts)
        known = column_of(name, self._columns)
        return known if known in self._columns else name

    def _literal(self, node: Expr) -> str:
        return "text" if node.is_string else "number"

    def _cast(self, node: Expr) -> str:
        self._kind(node.this)
        target = node.args["to"]
        if target.key != "datatype" or target.expressions or target.this.name not in _CAST_KINDS:
            self._fail(node, "a cast is to INT, BIGINT, FLOAT, DOUBLE, STRING, BOOLEAN, DATE or TIMESTAMP")
        return _CAST_KINDS[target.this.name]

    def _array(self, node: Expr) -> str:
        self._require("text", *node.expressions)
        return "list"

    def _bracket(self, node: Expr) -> str:
        self._require("list", node.this)
        self._require("number", *node.expressions)
        return "text"

    def _function(self, node: Expr) -> str:
        name, arguments = node.name.lower(), node.expressions
        if name not in FUNCTIONS:
            self._fail(
                node,
                f"no function named {node.name[:100]!r} for filters{suggest_nearest_name(name, FUNCTIONS)}",
            )
        kinds, result = FUNCTIONS[name]
        if kinds and kinds[-1].endswith("..."):
            kinds = ["same"] * max(2, len(arguments))
        if not sum("?" not in kind for kind in kinds) <= len(arguments) <= len(kinds):
            expected = " and ".join(kinds) or "nothing"
            self._fail(node, f"{name} takes {expected}, but got {len(arguments)} arguments")
        if not kinds:
            return result
        first_kind = self._kind(arguments[0])
        for kind, argument in zip(kinds, arguments, strict=False):
            is_pattern = kind.startswith("pattern")
            if kind == "name" and not (argument.key == "literal" and argument.is_string):
                self._fail(argument, "a name is a text in quotes, such as 'accepted'")
            if name == "in_polygon":
                self._check_polygon_argument(kind, argument)
            is_text = is_pattern or kind in ("polygon", "name")
            kind = "text" if is_text else first_kind if kind == "same" else kind.rstrip("?")
            self._require(kind, argument)
            if is_pattern or result in ("text", "same"):
                self._check_size(argument, is_pattern)
        return first_kind if result == "same" else result

    def _check_polygon_argument(self, kind: str, argument: Expr) -> None:
        """Columns and a text: only these stand for themselves where the call is replaced by its comparisons."""
        self.has_polygon = True
        if kind == "number" and argument.key != "column":
            self._fail(argument, "in_polygon takes two columns of numbers, then the corners as a text")
        if kind == "polygon" and not (argument.key == "literal" and argument.is_string):
            self._fail(argument, "the corners of a polygon are a text in quotes, such as '0 0, 4 0, 4 3'")
        if kind == "polygon" and (fault := polygon_fault(argument.name)):
            self._fail(argument, fault)

    def _check_size(self, argument: Expr, is_pattern: bool) -> None:
        counts = re.findall(r"\{(\d*),?(\d*)\}", argument.name) if is_pattern else []
        repetitions = math.prod(max(1, *(int(digits or 0) for digits in count)) for count in counts)
        if is_pattern and argument.key != "literal":
            self._fail(argument, "a pattern is a text in quotes, the same for all rows")
        if argument.key == "literal" and len(argument.name) > MAX_PATTERN:
            self._fail(argument, f"a text in a function has at most {MAX_PATTERN} characters")
        if repetitions > MAX_REPETITIONS:
            self._fail(argument, f"a pattern has at most {MAX_REPETITIONS} counted repetitions")


_RULES: Mapping[str, Callable[[FilterChecker, Expr], str]] = {
    **dict.fromkeys(("and", "or", "not"), FilterChecker._logic),
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte", "between"), FilterChecker._comparison),
    **dict.fromkeys(("nullsafeeq", "nullsafeneq"), FilterChecker._comparison),
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "neg"), FilterChecker._arithmetic),
    **dict.fromkeys(("like", "ilike"), FilterChecker._like),
    **dict.fromkeys(("cast", "trycast"), FilterChecker._cast),
    "paren": FilterChecker._paren,
    "is": FilterChecker._is,
    "in": FilterChecker._in,
    "null": FilterChecker._null,
    "boolean": FilterChecker._boolean,
    "column": FilterChecker._column,
    "literal": FilterChecker._literal,
    "array": FilterChecker._array,
    "bracket": FilterChecker._bracket,
    "anonymous": FilterChecker._function,
}


def _nodes_with_depth(tree: Expr) -> Iterator[tuple[Expr, int]]:
    """Every node with its depth; a chain of AND and OR is one level, as the engine takes it without recursion."""
    nodes = [(tree, 0)]
    while nodes:
        node, depth = nodes.pop()
        yield node, depth
        for child in node.iter_expressions():
            is_chain = node.key in ("and", "or") and child.key in ("and", "or")
            nodes.append((child, depth if is_chain else depth + 1))


def _chain_operands(node: Expr) -> list[Expr]:
    """The operands of a chain of AND, OR and NOT, from left to right."""
    operands: list[Expr] = []
    nodes = [node]
    while nodes:
        operand = nodes.pop()
        if operand.key in ("and", "or", "not"):
            nodes += reversed(list(operand.iter_expressions()))
        else:
            operands.append(operand)
    return operands


def _column_kind(type_name: str) -> str:
    kinds = {"string": "text", "bool": "bool", "list<string>": "list"}
    number = re.fullmatch(r"u?int\d+|float\d+|double|halffloat|float", type_name)
    return kinds.get(type_name) or ("number" if number else "time" if "timestamp" in type_name else "other")


def _is_integer(value: Expr) -> bool:
    """Whether a literal is a whole number of 64 bits; true for what is not a literal."""
    literal = value.this if value.key == "neg" else value
    digits = literal.name if literal.key == "literal" else "0"
    return len(digits) < 20 and digits.isdigit() and int(digits) < 2**63
