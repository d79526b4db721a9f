"""The elements of one large array, or of one that a service sends slowly: parsed as they arrive."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Any, Iterator

from . import Failure, Response


@dataclass(frozen=True)
class Odd:
    """An element of a list that is no JSON: it costs this element, not the list."""

    text: str


class Elements:
    """The elements of one array of a body, parsed one by one: the array is the document, or the value of `key` in it.

    `envelope` has the rest of the document after the last element, `found` says whether there was the array. A body that stops
    in the middle raises: what came before is no answer.
    """

    _JSON, _SPACE = json.JSONDecoder(), re.compile(r"[ \t\r\n]*")
    _TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,:\[\]{}"]+|[\[\]{}"]', re.S)

    def __init__(self, response: Response, key: str):
        self._read, self._key, self._text, self._at, self._ended = response.read, key, "", 0, False
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self.envelope: dict[str, Any] = {}
        self.found = False

    def __iter__(self) -> Iterator[Any]:
        opening = self._next()
        if opening not in ("[", "{"):
            raise Failure("upstream", "the document is neither a JSON list nor an object")
        if opening == "[":
            yield from self._array()
        while opening == "{" and (byte := self._next()) != "}":
            self._at -= byte != ","
            key, colon, begin = self._value(), self._next(), self._next()
            if colon != ":" or not isinstance(key, str):
                raise Failure("upstream", "the document is no JSON")
            if key == self._key and begin == "[" and not self.found:
                yield from self._array()
                self.envelope[key] = None
            else:
                self._at -= 1
                self.envelope[key] = self._value()
        while not self._ended:
            self._more()
        if self._text[self._at :].strip():
            raise Failure("upstream", "something follows the end of the document")

    def _array(self) -> Iterator[Any]:
        self.found = True
        while (byte := self._next()) != "]":
            if byte != ",":
                self._at -= 1
                yield self._value()

    def _more(self) -> None:
        if self._ended:
            raise Failure("upstream", "the document ends in the middle")
        piece = self._read()
        self._ended = not piece
        try:
            self._text, self._at = self._text[self._at :] + self._decode(piece, self._ended), 0
        except UnicodeDecodeError:
            raise Failure("upstream", "the document is no UTF-8") from None
        if len(self._text) > 5 << 20:
            raise Failure("upstream", "an element of the list is larger than 4 MiB")

    def _next(self) -> str:
        """The next character that is no white space."""
        while True:
            self._at = self._SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                self._at += 1
                return self._text[self._at - 1]
            self._more()

    def _value(self) -> Any:
        self._next()
        self._at -= 1
        while True:
            try:
                value, end = self._JSON.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                value, end = None, self._at
            if end == self._at or self._text[end : end + 1].strip() not in ("", ",", ":", "]", "}"):
                end = self._end()
                value = Odd(self._text[self._at : end])
            if end < len(self._text):  # A number that ends with the piece may continue in the next one.
                self._at = end
                return value
            self._more()

    def _end(self) -> int:
        """Where a value ends that is no JSON, by its quotes and brackets; the end of the text: not yet."""
        depth = 0
        for token in self._TOKEN.finditer(self._text, self._at):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
            if token.group() == '"':
                break
            if depth <= 0:
                return token.end()
        return len(self._text)
