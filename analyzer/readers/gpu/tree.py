"""XML → a small tree whose elements know their line; bounded, without entities or external documents, of a cut document what is there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax import SAXException
from xml.sax.handler import ContentHandler

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import create_parser

#: Elements of one document; a machine with 16 cards in MIG mode has some 10,000.
MAX_ELEMENTS = 200_000
MAX_DEPTH = 32


@dataclass(slots=True)
class Element:
    """An element with its text; ``line`` is the index of the line in which it begins."""

    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def find(self, *path: str) -> Element | None:
        """The first element at ``path`` below this one, direct children only at every step."""
        here: Element | None = self
        for tag in path:
            here = next((child for child in here.children if child.tag == tag), None) if here is not None else None
        return here

    def value(self, *path: str) -> str | None:
        """Its text, without blanks around it; None where there is no such element."""
        found = self.find(*path)
        return None if found is None else found.text.strip()

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Element]]:
        """(path of tags, element) of every element below that has no children."""
        for child in self.children:
            if child.children:
                yield from child.leaves((*path, child.tag))
            else:
                yield (*path, child.tag), child


class _TooMuch(SAXException):
    """The bounds are reached: what has been read so far counts."""


class _Builder(ContentHandler):
    def __init__(self, starts: Sequence[int] | None) -> None:
        super().__init__()
        self.root: Element | None = None
        self.complete = False
        self._open: list[Element] = []
        self._count = 0
        self._starts = starts
        self.locator: Any = None

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802 - the interface's name
        self._count += 1
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            raise _TooMuch("too many elements")
        element = Element(name, self._line(), {key: attrs.getValue(key) for key in attrs.getNames()})
        if self._open:
            self._open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:  # noqa: N802
        self._open.pop()
        self.complete = not self._open

    def characters(self, content: str) -> None:
        if self._open and len(self._open[-1].text) < 65536:
            self._open[-1].text += content

    def cut(self) -> None:
        """The text of what was still open at the end may be half of it."""
        for element in self._open:
            if not element.children:
                element.text = ""

    def _line(self) -> int:
        if self._starts is None:
            return int(self.locator.getLineNumber()) - 1
        return bisect_right(self._starts, int(self.locator.getColumnNumber())) - 1


def parse(lines: Sequence[str]) -> Element | None:
    """The root element of ``lines``; None where nothing can be read. Tags that a hard wrap broke are put together again."""
    builder = _run("\n".join(lines), None)
    if builder.complete or builder.root is None:
        return builder.root
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    joined = _run("".join(lines), starts)
    return joined.root if joined.complete else builder.root


def _run(text: str, starts: Sequence[int] | None) -> _Builder:
    builder = _Builder(starts)
    parser = create_parser(forbid_dtd=True, forbid_entities=True, forbid_external=True)
    parser.setContentHandler(builder)
    builder.locator = parser
    try:
        parser.feed(text)
        parser.close()
    except (SAXException, DefusedXmlException, UnicodeError):
        builder.cut()
    return builder
