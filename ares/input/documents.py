"""Reads JSON, YAML and XML documents and tables of foreign datasets, bounded in size, depth and expansion."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from ares.console import count_of
from ares.errors import SourceError
from ares.input.files import open_input, prepare_input_file, read_input, read_lines
from ares.input.limits import input_budgets
from ares.io import describe_os_error, is_url

if TYPE_CHECKING:
    import sqlite3
    from xml.etree.ElementTree import Element

    import pyarrow.parquet as pq


def read_json(path: str, **options: Any) -> Any:
    """The value in a JSON file.

    Args:
        path: Path or URL.
        options: Arguments of `json.loads`, such as `parse_constant`.

    Raises:
        SourceError: The file is too large or nested too deeply, or is no regular file of the dataset.
        ValueError: It is not JSON.
        OSError: It cannot be read.
    """
    return parse_json(read_input(path), path, **options)


def parse_json(text: bytes | str, where: str, **options: Any) -> Any:
    """The value of a JSON text that a dataset holds.

    Raises:
        SourceError: The text is too large or nested too deeply.
        ValueError: It is not JSON.
    """
    budgets = input_budgets()
    _check_size(text, budgets.text_bytes, where)
    try:
        value = json.loads(text, **options)
    except RecursionError:
        raise SourceError("document is nested too deeply", where) from None
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    # A level needs a bracket: the lines of a table have too few of them to be walked.
    if sum(map(text.count, opening)) > budgets.depth:  # type: ignore[arg-type]
        _check_depth(value, budgets.depth, where)
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("an object has a key twice")
    return values


# Arguments of `json.loads` that refuse what readers of JSON take in different ways.
STRICT_JSON: dict[str, Any] = {"parse_constant": _refuse_constant, "object_pairs_hook": _unique_keys}


def _check_depth(value: Any, limit: int, where: str) -> None:
    """Check the nested lists and objects of a value. Raises SourceError beyond the limit."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        if depth > limit:
            raise SourceError(
                "document is nested too deeply", f"{where}: more than {count_of(limit, 'level')}"
            )
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]


def read_yaml(path: str) -> Any:
    """The value in a YAML file.

    Raises:
        SourceError: The file is not YAML, is too large or nested too deeply, or its aliases expand too far.
        OSError: It cannot be read.
    """
    return parse_yaml(read_input(path, input_budgets().yaml_bytes), path)


def parse_yaml(text: bytes | str, where: str, *, is_shipped: bool = False) -> Any:
    """The value of a YAML text, of plain lists, mappings and scalars only.

    Args:
        text: The text.
        where: Its file, for messages.
        is_shipped: Whether it is part of ARES: the parser in C is many times as fast, and a deep text can crash it.

    Raises:
        SourceError: The text is not YAML, is too large or nested too deeply, or its aliases expand too far.
    """
    import yaml

    # Besides YAMLError, the constructor raises these for values that a tag makes strange, such as `!!bool x`.
    faults = (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError)
    _check_size(text, input_budgets().yaml_bytes, where)
    try:
        fast = yaml.__with_libyaml__ and is_shipped
        loader = yaml.CSafeLoader(text) if fast else yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _expanded_nodes(node, {}, 0, where)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise SourceError("document is nested too deeply", where) from None
    except faults as error:
        raise SourceError("file is not YAML", f"{where}: {' '.join(str(error).split())[:300]}") from None


def _expanded_nodes(node: Any, counts: dict[int, int], depth: int, where: str) -> int:
    """Nodes of a YAML document after its aliases are expanded. Raises SourceError beyond the budgets."""
    budgets = input_budgets()
    if depth > budgets.depth:
        raise SourceError(
            "document is nested too deeply", f"{where}: more than {count_of(budgets.depth, 'level')}"
        )
    if id(node) not in counts:
        counts[id(node)] = budgets.entries + 1  # until it is known: an alias of itself is endless
        children = node.value if isinstance(node.value, list) else []
        nodes = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        counts[id(node)] = 1 + sum(_expanded_nodes(part, counts, depth + 1, where) for part in nodes)
    if counts[id(node)] > budgets.entries:
        raise SourceError(
            "aliases of the document expand too far", f"{where}: over {count_of(budgets.entries, 'node')}"
        )
    return counts[id(node)]


def _check_size(text: bytes | str, limit: int, where: str) -> None:
    if len(text) > limit:
        raise SourceError("document is larger than allowed", f"{where}: {len(text)} of at most {limit} bytes")


def read_xml(path: str) -> Element:
    """The root element of an XML file.

    Raises:
        SourceError: As `parse_xml`, or it is no regular file of the dataset.
        OSError: It cannot be read.
    """
    return parse_xml(read_input(path), path)


def parse_xml(text: bytes | str, where: str) -> Element:
    """The root element of an XML text.

    Entities can expand without bound, or name other files. They need a document type, which is refused.

    Raises:
        SourceError: It is not XML, is too large or nested too deeply, or declares a document type.
    """
    from xml.parsers import expat

    limit = input_budgets().text_bytes
    if len(text) > limit:
        raise SourceError("document is larger than allowed", f"{where}: {len(text)} of at most {limit} bytes")
    parser, tree = expat.ParserCreate(), _BoundedTree(where)
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.StartDoctypeDeclHandler = tree.refuse_type
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise SourceError("file is not XML", f"{where}: {error}") from None
    return tree.builder.close()


class _BoundedTree:
    """Builds the elements of a document while their number and depth are allowed; texts are left out."""

    def __init__(self, where: str) -> None:
        from xml.etree.ElementTree import TreeBuilder

        self.builder = TreeBuilder()
        self._where, self._budgets = where, input_budgets()
        self._depth = self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth, self._elements = self._depth + 1, self._elements + 1
        if self._depth > self._budgets.depth:
            limit = f"more than {count_of(self._budgets.depth, 'level')}"
            raise SourceError("document is nested too deeply", f"{self._where}: {limit}")
        if self._elements > self._budgets.entries:
            raise SourceError(
                "document has too many elements", f"{self._where}: over {self._budgets.entries}"
            )
        self.builder.start(tag, attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self.builder.end(tag)

    def refuse_type(self, *_: object) -> NoReturn:
        raise SourceError("XML declares a document type", f"{self._where}: DOCTYPE and entities are not read")


# Thrift limits of a Parquet footer: bytes of one text, and items of one list.
_FOOTER_BYTES = 256 * 2**20
_FOOTER_ITEMS = 4_000_000
# More values in a row than this are counted column by column.
_VALUES_PER_ROW = 64
_MAX_CELL_CHARS = 2**24


def open_parquet(path: str, *, long_reads: bool = False, **options: Any) -> pq.ParquetFile:
    """A Parquet file, open for reading.

    Args:
        path: Path or URL.
        long_reads: As for `open_input`; for URLs only.
        options: Arguments of `pyarrow.parquet.ParquetFile`.

    Raises:
        SourceError: It is no regular file, or a link leads out of the dataset.
        pyarrow.ArrowException: It is damaged.
        OSError: It cannot be opened.
    """
    import pyarrow.parquet as pq

    source: Any = path
    if is_url(path):
        source = open_input(path, long_reads=long_reads)
    else:
        prepare_input_file(path)
    return pq.ParquetFile(
        source,
        thrift_string_size_limit=_FOOTER_BYTES,
        thrift_container_size_limit=_FOOTER_ITEMS,
        **options,
    )


def check_parquet_read(
    file: pq.ParquetFile, groups: Iterable[int], columns: Iterable[str] | None, where: str
) -> None:
    """Check by the footer that columns of row groups fit the budgets, before they are read at once.

    Args:
        file: The open file.
        groups: Numbers of the row groups.
        columns: Names of columns, as given to Arrow; None for all.
        where: For messages.

    Raises:
        SourceError: They hold too many values or bytes.
    """
    budgets, metadata, numbers = input_budgets(), file.metadata, list(groups)
    # Files may hold thousands of row groups: their columns are summed only where their totals are too large.
    rows = bytes_of_groups = 0
    for group in numbers:
        row_group = metadata.row_group(group)
        rows += row_group.num_rows
        bytes_of_groups += row_group.total_byte_size
    if bytes_of_groups <= budgets.array_bytes and rows * _VALUES_PER_ROW <= budgets.elements:
        return
    names = None if columns is None else set(columns)
    selected = [
        number
        for number in range(metadata.num_columns)
        if names is None or not names.isdisjoint(_column_names(metadata.schema.column(number).path))
    ]
    chunks = [metadata.row_group(group).column(number) for group in numbers for number in selected]
    num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    num_values = sum(chunk.num_values for chunk in chunks)
    if num_bytes > budgets.array_bytes or num_values > budgets.elements:
        raise SourceError(
            "columns of the data file are larger than allowed",
            f"{where}: {count_of(num_values, 'value')}, {num_bytes} bytes",
        )


def _column_names(path: str) -> tuple[str, str]:
    """The names by which a column of a Parquet file can be selected: its path, and the first part of it."""
    return path, path.partition(".")[0]


def connect_sqlite(path: str) -> sqlite3.Connection:
    """A connection to a local SQLite file: read-only, without locks, other databases and trust in its schema.

    Raises:
        SourceError: It is no regular file, or a link leads out of the dataset.
        OSError: It is missing.
        sqlite3.Error: It cannot be opened.
    """
    import sqlite3

    prepare_input_file(path)
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(input_budgets().array_bytes, 2**30))
    return connection


def read_cells(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """The rows of a table as texts or JSON values by column, with their line numbers. Raises SourceError."""
    return _read_json_lines(path) if path.suffix.lower() == ".jsonl" else _read_separated(path)


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    parse = functools.partial(json.loads, parse_constant=_reject_constant)
    yield from parse_json_lines(_table_lines(path), path, parse)


def _read_separated(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    csv.field_size_limit(_MAX_CELL_CHARS)
    # Spreadsheets write a byte order mark; a byte that is not UTF-8 is replaced.
    texts = (line.decode("utf-8", "replace").replace("\0", "") for line in _table_lines(path))
    header = next(texts, "").removeprefix("\ufeff")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    reader = csv.reader(texts, delimiter=delimiter)
    try:
        for values in reader:
            if any(value.strip() for value in values):
                number = reader.line_num + 1
                yield number, _build_row(names, values, f"{path}, line {number}")
    except csv.Error as error:
        yield reader.line_num + 1, SourceError("rest of the table cannot be read", f"{path}: {error}")


def _build_row(names: list[str], values: list[str], location: str) -> dict[str, Any] | SourceError:
    if len(values) > len(names):
        return SourceError(
            "metadata line has a wrong form",
            f"{location}: {count_of(len(values), 'cell')}, {count_of(len(names), 'column')}",
        )
    return dict(zip(names, (value.strip() for value in values), strict=False))


def _table_lines(path: Path) -> Iterator[bytes]:
    try:
        yield from read_lines(str(path))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {describe_os_error(error)}") from None


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def parse_json_lines(
    lines: Iterable[bytes], path: Path, parse: Callable[[bytes], Any] | None = None
) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """For each line that is not blank, its number from 1 and its object, or a SourceError about the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        try:
            document = (parse or functools.partial(parse_json, where=location))(line)
        except SourceError as error:
            yield number, SourceError(error.reason, location)
            continue
        except (ValueError, RecursionError) as error:
            yield number, SourceError("metadata line is not JSON", f"{location}: {error}")
            continue
        if isinstance(document, dict):
            yield number, document
        else:
            yield (
                number,
                SourceError("metadata line is not a JSON object", f"{location}: {type(document).__name__}"),
            )
