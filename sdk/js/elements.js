/** The elements of one large array, or of one that a service sends slowly: parsed as they arrive. */

import { Failure, decode } from './index.js';

const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [LIST, END_OF_LIST, OBJECT, END_OF_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const isSpace = (byte) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

const [BETWEEN, TEXT, WORD] = [0, 1, 2];
const ENDS = [COMMA, COLON, QUOTE, LIST, END_OF_LIST, OBJECT, END_OF_OBJECT];
// Escapes and numbers that are worth a look: most texts have none, and a parser with a function is slow.
const SUSPICIOUS = /\\u[dD][89a-fA-F]|[eE]\+?[0-9]{2}|[0-9]{300}/;
const HALF = /[\ud800-\udfff]/u;

/** JSON whose numbers are finite and whose texts have no half of a pair of UTF-16: no answer and no request can have it. */
function parse(text) {
  const strict = (key, value) => {
    const isOdd = typeof value === 'number' ? !Number.isFinite(value) : typeof value === 'string' && HALF.test(value);
    if (isOdd || HALF.test(key)) throw new TypeError('half a character, or a number beyond all');
    return value;
  };
  return JSON.parse(text, SUSPICIOUS.test(text) ? strict : undefined);
}

/** An element of a list that is no JSON, or has half a character or a number beyond all: it costs this element, not the list. */
export class Odd {
  constructor(text) {
    this.text = text;
  }
}

/**
 * The elements of one array of a body, parsed one by one: the array is the document, or the value of `key` in it.
 *
 * `envelope` has the rest of the document after the last element, `found` says whether there was the array. A body that stops in the
 * middle throws: what came before is no answer.
 */
export class Elements {
  #response;
  #key;
  #bytes = new Uint8Array();
  #filled = 0;
  #at = 0;
  #ended = false;

  constructor(response, key) {
    this.#response = response;
    this.#key = key;
    this.envelope = {};
    this.found = false;
  }

  *[Symbol.iterator]() {
    const opening = this.#next();
    if (opening === LIST) yield* this.#array();
    else if (opening !== OBJECT) throw new Failure('upstream', 'the document is neither a JSON list nor an object');
    for (let byte; opening === OBJECT && (byte = this.#next()) !== END_OF_OBJECT; ) {
      if (byte !== COMMA) this.#at -= 1;
      const key = this.#value();
      const [colon, begin] = [this.#next(), this.#next()];
      if (colon !== COLON || typeof key !== 'string') throw new Failure('upstream', 'the document is no JSON');
      if (key === this.#key && begin === LIST && !this.found) {
        yield* this.#array();
        this.envelope[key] = null;
      } else {
        this.#at -= 1;
        this.envelope[key] = this.#value();
      }
    }
    while (this.#isBlank() && !this.#ended) this.#more();
    if (!this.#isBlank()) throw new Failure('upstream', 'something follows the end of the document');
  }

  *#array() {
    this.found = true;
    for (let byte; (byte = this.#next()) !== END_OF_LIST; ) {
      if (byte !== COMMA) {
        this.#at -= 1;
        yield this.#value();
      }
    }
  }

  #more() {
    if (this.#ended) throw new Failure('upstream', 'the document ends in the middle');
    const [rest, piece] = [this.#filled - this.#at, this.#response.read()];
    if (rest > 4 << 20) throw new Failure('upstream', 'an element of the list is larger than 4 MiB');
    this.#ended = piece.length === 0;
    if (this.#filled + piece.length > this.#bytes.length) {
      // Twice the room: an element in many pieces is not copied for each of them.
      const bytes = new Uint8Array(2 * (rest + piece.length));
      bytes.set(this.#bytes.subarray(this.#at, this.#filled));
      [this.#bytes, this.#at, this.#filled] = [bytes, 0, rest];
    }
    this.#bytes.set(piece, this.#filled);
    this.#filled += piece.length;
  }

  /** Passes white space; whether nothing else is here. */
  #isBlank() {
    while (this.#at < this.#filled && isSpace(this.#bytes[this.#at])) this.#at += 1;
    return this.#at === this.#filled;
  }

  /** The next byte that is no white space. */
  #next() {
    while (this.#isBlank()) this.#more();
    return this.#bytes[this.#at++];
  }

  #value() {
    this.#next();
    this.#at -= 1;
    const scan = { length: 0, depth: 0, place: BETWEEN };
    while (!this.#ends(scan)) this.#more();
    let text;
    try {
      text = decode(this.#bytes.subarray(this.#at, this.#at + scan.length));
    } catch {
      throw new Failure('upstream', 'the document is no UTF-8');
    }
    this.#at += scan.length;
    try {
      return parse(text);
    } catch {
      return new Odd(text);
    }
  }

  /** Whether a value ends in the bytes that are here, by its quotes and brackets. The scan keeps its place: each byte is read once. */
  #ends(scan) {
    const [bytes, filled] = [this.#bytes, this.#filled];
    let { depth, place } = scan;
    let at = this.#at + scan.length;
    let isEnd = false;
    while (at < filled && !isEnd) {
      const byte = bytes[at];
      if (place === WORD) {
        isEnd = isSpace(byte) || ENDS.includes(byte);
        if (isEnd) break;
      } else if (place === TEXT) {
        while (at < filled && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
        if (at >= filled) break;
        place = BETWEEN;
        isEnd = depth === 0;
      } else if (byte === QUOTE) {
        place = TEXT;
      } else if (byte === LIST || byte === OBJECT) {
        depth += 1;
      } else if (depth === 0) {
        place = WORD; // A number, a word, or what should be one.
      } else if (byte === END_OF_LIST || byte === END_OF_OBJECT) {
        depth -= 1;
        isEnd = depth === 0;
      }
      at += 1;
    }
    Object.assign(scan, { length: at - this.#at, depth, place });
    return isEnd;
  }
}
