"""Columns of LeRobot tables are decoded as pyarrow says their rows are, however the table is cut."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from ares_ingest.lerobot.rows import decode_table

_ROWS = 40


def test_cut_tables_hold_the_rows_that_pyarrow_says(request: pytest.FixtureRequest) -> None:
    rng = random.Random(request.config.getoption("randomly_seed", 7))
    numbers = [[rng.random() for _ in range(3)] for _ in range(_ROWS)]
    texts = [rng.choice(["pick", "place", None]) for _ in range(_ROWS)]
    table = pa.table(
        {
            "fixed": pa.array(numbers, pa.list_(pa.float64(), 3)),
            "lists": pa.array(numbers, pa.list_(pa.float64())),
            "nested": pa.array([[row[:1], row[1:2]] for row in numbers], pa.list_(pa.list_(pa.float64(), 1))),
            "text": pa.array(texts, pa.string()),
        }
    )
    for _ in range(30):
        start = rng.randrange(_ROWS)
        cut = table.slice(start, rng.randrange(1, _ROWS - start + 1))
        columns = decode_table(cut)
        for name in ("fixed", "lists", "nested"):
            expected = np.array(cut[name].to_pylist()).reshape(len(cut), -1)
            assert np.array_equal(columns[name].flat.reshape(len(cut), -1), expected), (name, start, len(cut))
        known = columns["text"].texts or ()
        assert [known[number] for number in columns["text"].flat] == [
            t or "" for t in cut["text"].to_pylist()
        ]


@pytest.mark.parametrize("count", [40, 4000])
def test_few_and_many_texts_are_numbered_alike(count: int) -> None:
    texts = [f"task {number * number % 7}" for number in range(count)]
    column = decode_table(pa.table({"text": texts}))["text"]
    assert column.texts is not None
    assert [column.texts[number] for number in column.flat] == texts
    assert len(column.texts) == len(set(texts))


def test_a_missing_list_has_no_values() -> None:
    column = decode_table(pa.table({"lists": pa.array([[1.0, 2.0], None, [3.0]], pa.list_(pa.float64()))}))[
        "lists"
    ]
    assert column.offsets is not None
    assert column.offsets.tolist() == [0, 2, 2, 3]
