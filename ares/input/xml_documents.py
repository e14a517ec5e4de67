"""XML documents of foreign datasets, bounded in size, depth and elements; document types and entities are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ares.errors import SourceError
from ares.input.budgets import input_budgets
from ares.input.files import read_input

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


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
            limit = f"more than {self._budgets.depth} levels"
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
