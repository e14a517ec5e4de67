"""JSON, YAML and XML of foreign datasets, bounded in size, depth and expansion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from ares.console import count_of
from ares.errors import SourceError
from ares.input.files import read_input
from ares.input.limits import input_budgets

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


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
