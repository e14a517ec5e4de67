"""What a filter may say; anything else is refused in one line with the offset of the fault."""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections.abc import Callable

import pytest

from ares.episode import Record
from ares.errors import FilterError
from ares.store import EpisodeTable
from ares.store.filters import check_filter, parse_condition
from ares.store.lance_tables import open_tables


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Record]) -> EpisodeTable:
    """Thirty episodes."""
    tables = open_tables(str(tmp_path_factory.mktemp("filters")))
    tables.episodes.add([make_record(number, steps=5 + number % 7) for number in range(30)])
    return tables.episodes


@pytest.mark.parametrize(
    ("where", "message", "pointed"),
    [
        ("nope = 1", "no column named 'nope': a value of the source is in metadata: ", "nope"),
        ("datset = 'set1'", "did you mean 'dataset'? the columns are dataset, ", "datset"),
        (
            "grade_trust = 'trusted'",
            "no column named 'grade_trust': it is gone: use acceptable, which is empty where the judge is refuted",
            "grade_trust",
        ),
        ("acceptable_unproven", "it is gone: use acceptable, which any judge fills", "acceptable_unproven"),
        (
            "certified > 0.9",
            "it is gone: use --min-precision, which asks for what people measured",
            "certified",
        ),
        ("success AND\n  datset = 'a'", "did you mean 'dataset'", "datset"),
        ("Numsteps > 3", "no column named 'numsteps': did you mean 'num_steps'?", "N"),
        ("`Success`", "no column named 'Success'", "`Success`"),
        ("dataset.key = 'a'", "no column named 'dataset.key'", "dataset.key"),
        ("_rowid > 5", "no column named '_rowid'", "_rowid"),
        ("success AND ingested > CURRENT_DATE", "no column named 'current_date'", "CURRENT_DATE"),
        ("dataset = ", "a value or a condition is missing at the end", ""),
        ("dataset = AND success", "unexpected 'AND'", "AND"),
        ("\x00", "no column named", "\x00"),
        ("dataset = 'set1", "this quote is never closed", "'set1"),
        ("(success AND (num_steps > 3)", "')' is missing at the end", ""),
        ("tags[1", "']' is missing at the end", ""),
        ("CAST(num_steps", "'AS' is missing at the end", ""),
        ("CAST(num_steps AS", "a type is missing at the end", ""),
        ("num_steps::", "a type is missing at the end", ""),
        ("num_steps > 3) OR (true", "unexpected ')'", ") OR"),
        ("num_steps > 3 num_steps < 5", "unexpected 'num_steps'", "num_steps < 5"),
        ("num_steps > 3 -- and so on", "one condition without ';'", "--"),
        ("num_steps > 3 /* */", "one condition", "/*"),
        ("success {# true #}", "one condition", "{#"),
        ("num_steps > 3; DROP TABLE episodes", "one condition", ";"),
        ("num_steps > ?", "one condition", "?"),
        ("success AND :name", "one condition", ":name"),
        ("num_steps > $1", "one condition", "$1"),
        ("num_steps > 'many'", "num_steps is int64, to be compared with a whole number", "'many'"),
        ("num_steps > 2.5", "2.5 does not fit: num_steps is int64", "2.5"),
        ("success AND num_steps = 1e2", "1e2 does not fit", "1e2"),
        ("num_steps = 99999999999999999999", "does not fit: num_steps is int64", "9999"),
        ("num_steps IN (1, 'two')", "'two' does not fit", "'two'"),
        ("num_steps BETWEEN 1 AND 2.5", "2.5 does not fit", "2.5"),
        ("num_steps > 3 AND key = 5", "5 does not fit: key is string, to be compared with text", "5"),
        ("5 = key", "5 does not fit: key is string", "5"),
        ("key = num_steps", "num_steps does not fit: key is string", "num_steps"),
        ("lower(key) = 5", "5 does not fit: it is compared with text", "5"),
        ("success = 'yes'", "success is bool, to be compared with true or false", "'yes'"),
        ("ingested > '2026-01-01'", "compared with a time such as TIMESTAMP '2026-11-21'", "'2026-01-01'"),
        ("instructions = 'pull'", "list<string>, to be compared with a list of text", "'pull'"),
        ("num_steps", "num_steps is a number, not true or false", "num_steps"),
        ("success OR 1", "1 is a number, not true or false", "1"),
        ("success AND lower(num_steps) = 'a'", "num_steps is a number, not text", "num_steps"),
        ("key + 1 > 2", "key is text, not a number", "key"),
        ("num_steps IS TRUE", "num_steps is a number, not true or false", "num_steps"),
        ("success IS 3", "IS needs NULL, TRUE or FALSE", "success"),
        ("success AND \"dataset\" = 'a'", "in double quotes; write a column without quotes", '"dataset"'),
        ('dataset = "a"', "in double quotes; write a text in single quotes", '"a"'),
        ("num_steps = null", "NULL equals nothing", "null"),
        ("grade IN ('error', NULL)", "no column named 'grade'", "grade"),
        ("key IN ('error', NULL)", "NULL equals nothing", "NULL"),
        ("success AND num_steps IN () OR (success)", "IN needs a list of values", "num_steps IN ()"),
        ("sleep(3)", "no function named 'sleep'", "sleep"),
        ("random() > 0.5", "no function named 'random'", "random"),
        ("ingested > now()", "no function named 'now'", "now"),
        ("success AND starts_wth(key, 'a')", "did you mean 'starts_with'?", "starts_wth"),
        ("starts_with(key)", "starts_with takes text and text, but got 1 arguments", "starts_with"),
        ("repeat('a', 2000000000) = 'x'", "no function named 'repeat'", "repeat"),
        ("lpad('a', 2000000000, 'b') = 'x'", "no function named 'lpad'", "lpad"),
        ("replace(key, 'a', 'aaaa') = 'x'", "no function named 'replace'", "replace"),
        ("regexp_like(key, instruction)", "a pattern is a text in quotes", "instruction"),
        ("regexp_like(key, '(a{100}){100}')", "at most 1000 counted repetitions", "'(a{100"),
        (f"coalesce(key, '{'a' * 300}') = 'a'", "at most 200 characters", "'aaa"),
        (f"key = '{'a' * 10_001}'", "at most 10000 characters", "'aaa"),
        ("CAST(key AS VARCHAR) = 'a'", "a cast is to INT, BIGINT", "CAST"),
        ("key || 'a' = 'b'", "unexpected '|'", "| 'a'"),
        ("num_steps << 3 > 1", "not allowed", "num_steps"),
        ("dataset = N'a'", "not allowed", "N'a'"),
        ("count(*) > 1", "not allowed", "*"),
        ("(success, success) = success", "not allowed", "success"),
        ("num_steps IN (SELECT 1)", "unexpected '1'", "1)"),
        ("success AND EXISTS (SELECT 1)", "unexpected '1'", "1)"),
        ("CASE WHEN success THEN true END", "unexpected 'WHEN'", "WHEN"),
        ("success AND read_csv('/etc/passwd') = 'a'", "no function named 'read_csv'", "read_csv"),
        # Lance refuses these, when it plans the filter or when it evaluates it.
        ("success AND 1 / (num_steps - num_steps) > 0", "Divide by zero", "success"),
        ("success OR CAST(instruction AS INT) > 0", "Cannot cast string", "success"),
        ("success AND ingested > TIMESTAMP 'soon'", "soon", "'soon'"),
        ("success OR regexp_like(key, '(')", "regex parse error", "success"),
        ("success AND num_steps::text = '5'", "Unsupported data type", "success"),
    ],
)
def test_a_filter_that_cannot_be_read(episodes: EpisodeTable, where: str, message: str, pointed: str) -> None:
    for evaluate in (episodes.count, episodes.ids, lambda where: list(episodes.read(where))):
        with pytest.raises(FilterError) as caught:
            evaluate(where)
        error = caught.value
        assert error.reason == "the filter cannot be read"
        assert message in error.detail
        assert "\n" not in error.detail
        assert ".rs:" not in error.detail
        assert len(error.detail) < 1_500
        assert error.position is not None
        assert error.where[error.position :].startswith(pointed)
        text, caret = error.pointer.split("\n")
        assert text[caret.index("^") :].startswith(pointed if pointed.isprintable() else " ")
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.pointer) == (str(error), error.pointer)
    assert episodes.count() == 30


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("dataset = 'set1'", 10),
        ("dataset == 'set1' OR dataset <> 'set1' AND dataset != 'set2'", 20),
        ("DATASET = 'set1' and Success", 0),
        ("`dataset` = 'set1' AND NOT success", 10),
        ("num_steps BETWEEN 5 AND 6 AND num_steps NOT BETWEEN 6 AND 6", 5),
        ("num_steps IN (5, 6) AND num_steps NOT IN (6)", 5),
        ("key LIKE '1%' AND key NOT LIKE '%5' AND key ILIKE '%2'", 1),
        ("success IS NULL OR success IS NOT TRUE", 20),
        ("success IS DISTINCT FROM true", 20),
        ("num_steps * 2 - 1 > 20 AND num_steps % 2 = 1 AND -num_steps < 0 AND num_steps / 2 > 1", 4),
        ("rate_hz > 9.5 AND rate_hz < .5e2", 30),
        ("CAST(num_steps AS STRING) = '5' AND key::INT >= 7 AND TRY_CAST(key AS DOUBLE) < 20", 2),
        ("ingested > TIMESTAMP '2020-01-01 10:00:00' AND ingested > DATE '2020-01-01'", 30),
        ("date_part('year', ingested) >= 2020 AND date_trunc('year', ingested) <= ingested", 30),
        ("ingested > to_timestamp('2020-01-01')", 30),
        ("array_has(instructions, 'pull the handle') AND cardinality(instructions) = 2", 30),
        ("array_has_any(state_names, ['x', 'z']) AND NOT array_has_all(state_names, ARRAY['x', 'z'])", 30),
        ("state_names = ['x', 'y'] AND state_names[1] = 'x'", 30),
        ("lower(upper(left(key, 1))) = '1' AND length(key) = 2 AND right(key, 1) = '7'", 1),
        ("starts_with(key, '1') AND ends_with(key, '7') AND contains(key, '17') AND strpos(key, '7') = 2", 1),
        ("regexp_like(instruction, '^open DRAWER 1[0-4]$', 'i')", 5),
        ("regexp_match(instruction, 'drawer (5)') IS NOT NULL", 1),
        ("split_part(instruction, ' ', 3) = '7'", 1),
        ("coalesce(success, false) OR greatest(num_steps, 7) = 7 AND nullif(dataset, 'set1') IS NULL", 15),
        ("abs(round(rate_hz)) = 10 AND power(rate_hz, 2) = 100 AND sqrt(rate_hz) > 3", 30),
        ("NOT isnan(rate_hz) AND instruction <> 'what; is it? $5 -- ''so'' it is'", 30),
        ("true", 30),
        (" \n", 30),
    ],
)
def test_what_a_filter_may_say(episodes: EpisodeTable, where: str, count: int) -> None:
    assert episodes.count(where) == len(episodes.ids(where)) == count


def test_a_long_filter_is_evaluated(episodes: EpisodeTable) -> None:
    """As a tree of 3,000 operators it would overflow the stack of Lance, and end the process."""
    assert episodes.count(" OR ".join(f"(num_steps = {number} AND success)" for number in range(3_000))) == 10
    assert episodes.count(f"episode_id IN ({', '.join(repr(str(number)) for number in range(20_000))})") == 0


_NESTED = {
    "parentheses": "(" * 20_000 + "success" + ")" * 20_000,
    "functions": "lower(" * 30 + "key" + ")" * 30 + " = 'a'",
    "prefixes": "NOT " * 20_000 + "success",
    "minus signs": "- " * 20_000 + "1 = 1",
    "sums": "num_steps" + " + 1" * 100 + " > 0",
    "comparisons": "success" + " = success" * 100,
    "tests": "success" + " IS TRUE" * 400,
    "chain": " OR ".join(f"num_steps = {number}" for number in range(3_000)) + " OR nope = 1 OR nope = 2",
    "casts": "num_steps" + "::INT" * 100 + " > 0",
    "lists": " OR ".join(["num_steps IN (1)"] * 101),
    "many words": "a, " * 130_000,
    "many signs": "/" * 390_000,
    "many quotes": "``" * 190_000,
    "one word": "x" * 399_999,
    "blanks": " " * 399_999 + ")",
    "characters": "x" * 400_001,
}


@pytest.mark.parametrize("name", _NESTED)
def test_a_filter_without_measure_is_refused_soon(episodes: EpisodeTable, name: str) -> None:
    """Without a limit, Lance ends the process at a few hundred nested operators."""
    parse_condition("true")
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(FilterError) as caught:
        episodes.count(_NESTED[name])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(str(caught.value)) < 2_000
    assert time.process_time() - started < 5  # tracemalloc makes it some five times slower
    assert peak < 100 * 2**20


def test_nested_functions_are_checked_once(episodes: EpisodeTable) -> None:
    """Twice at every level would be a quarter of a million times."""
    started = time.process_time()
    check_filter("lower(" * 18 + "key" + ")" * 18 + " = 'a'", episodes.columns())
    assert time.process_time() - started < 1
