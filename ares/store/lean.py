"""Lean: pyarrow for a process that never makes a DataFrame, which spares it the second that importing pandas takes."""

from __future__ import annotations

import sys


class _NoPandas:
    """An import finder that says there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, once and for all, and not find it. Nothing happens where pandas is loaded."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow as pa
        import pyarrow.dataset

        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)
