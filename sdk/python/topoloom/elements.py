"""The elements of one large array, or of one that a service sends slowly: parsed as they arrive."""

from __future__ import annotations

import codecs
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Iterator

from . import Failure, Response


@dataclass(frozen=True)
class Odd:
    """An element of a list that is no JSON, or has half a character or a number beyond all: it costs this element, not the list."""

    text: str


def _number(text: str) -> float:
    """A number that is one: `NaN` and `Infinity` are no JSON, and 1E400 is larger than any."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _has_halves(value: Any) -> bool:
    """Whether a text in a value has half of a pair of UTF-16 (`"\\ud800"`): no answer and no request can have it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return True
    return False


class Elements:
    """The elements of one array of a body, parsed one by one: the array is the document, or the value of `key` in it.

    `envelope` has the rest of the document after the last element, `found` says whether there was the array. A body that stops
    in the middle raises: what came before is no answer.
    """

    _JSON, _SPACE = json.JSONDecoder(parse_float=_number, parse_constant=_number), re.compile(r"[ \t\r\n]*")
    _WORD, _TEXT, _REST = re.compile(r'[^ \t\r\n,:\[\]{}"]*'), re.compile(r'[^"\\]*'), re.compile(r'[^"\[\]{}]*')

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
        while self._is_blank() and not self._ended:
            self._more()
        if not self._is_blank():
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

    def _is_blank(self) -> bool:
        """Passes white space; whether nothing else is here."""
        self._at = self._SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._at == len(self._text)

    def _next(self) -> str:
        """The next character that is no white space."""
        while self._is_blank():
            self._more()
        self._at += 1
        return self._text[self._at - 1]

    def _value(self) -> Any:
        self._next()
        begin, text = self._at - 1, self._text
        self._at = begin
        if text[begin] in '"[{':  # A number that ends with the piece may continue in the next one.
            try:
                value, self._at = self._JSON.raw_decode(text, begin)
            except (ValueError, RecursionError):
                pass  # It is no JSON, or its end is in a piece to come.
        if self._at > begin:
            is_odd = text.find("\\u", begin, self._at) >= 0 and _has_halves(value)
            return Odd(text[begin : self._at]) if is_odd else value
        text = self._whole()
        try:
            value = self._JSON.decode(text)
        except (ValueError, RecursionError):
            return Odd(text)
        return Odd(text) if "\\u" in text and _has_halves(value) else value

    def _whole(self) -> str:
        """The text of a value, by its quotes and brackets. It may end in a later piece, and each piece is read once."""
        pieces, size, depth = [], 0, 0
        rule = self._REST if self._text[self._at] in '"[{' else self._WORD
        stop = self._at + (rule is self._WORD)  # A word has at least one character.
        while True:
            stop = rule.match(self._text, stop).end()  # type: ignore[union-attr]
            byte = self._text[stop : stop + 1]
            if not byte or byte == "\\" and stop + 1 == len(self._text):  # An escape that is cut stays for the next piece.
                pieces.append(self._text[self._at : stop])
                size, self._at = size + len(pieces[-1]), stop
                if size > 4 << 20:
                    raise Failure("upstream", "an element of the list is larger than 4 MiB")
                self._more()
                stop = 0
                continue
            if rule is self._WORD:
                break
            stop += 2 if byte == "\\" else 1
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(byte, 0)
            if byte == '"':
                rule = self._REST if rule is self._TEXT else self._TEXT
            if depth == 0 and rule is self._REST:
                break
        pieces.append(self._text[self._at : stop])
        self._at = stop
        return "".join(pieces)
