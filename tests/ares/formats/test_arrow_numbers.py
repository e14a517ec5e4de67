"""Numbers of Arrow arrays are those that pyarrow itself converts, for every type, with and without missing values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ares_ingest.lerobot.episode_list import arrow_to_numbers

TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_values_are_those_of_pyarrow_and_what_is_missing_is_nan(type: pa.DataType) -> None:
    whole = pa.array([n % 2 for n in range(20)]).cast(type)
    for first, count in ((0, 0), (0, 12), (3, 0), (3, 1), (3, 12)):
        array = whole.slice(first, count)
        numbers, expected = arrow_to_numbers(array), array.to_numpy(zero_copy_only=False)
        assert numbers.dtype == expected.dtype
        np.testing.assert_array_equal(numbers, expected)
    array = pa.array([1, None, 0, None, 1, 1, None]).cast(type).slice(1)
    numbers = arrow_to_numbers(array)
    is_bool = pa.types.is_boolean(type)
    assert numbers.dtype == (np.float32 if is_bool else array.to_numpy(zero_copy_only=False).dtype)
    np.testing.assert_array_equal(numbers, [np.nan, 0, np.nan, 1, 1, np.nan])


def test_other_types_are_left_to_pyarrow() -> None:
    assert arrow_to_numbers(pa.array(["a", None])).tolist() == ["a", None]
    assert arrow_to_numbers(pa.array([None, None])).tolist() == [None, None]
