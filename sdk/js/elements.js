/** The elements of one large array, or of one that a service sends slowly: parsed as they arrive. */

import { Failure, decode } from './index.js';

const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [LIST, END_OF_LIST, OBJECT, END_OF_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const isSpace = (byte) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** An element of a list that is no JSON: it costs this element, not the list. */
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
    while (!this.#ended) this.#more();
    if (!this.#bytes.subarray(this.#at).every(isSpace)) throw new Failure('upstream', 'something follows the end of the document');
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
    const [rest, piece] = [this.#bytes.subarray(this.#at), this.#response.read()];
    if (rest.length > 4 << 20) throw new Failure('upstream', 'an element of the list is larger than 4 MiB');
    this.#ended = piece.length === 0;
    const bytes = new Uint8Array(rest.length + piece.length);
    bytes.set(rest);
    bytes.set(piece, rest.length);
    [this.#bytes, this.#at] = [bytes, 0];
  }

  /** The next byte that is no white space. */
  #next() {
    for (;;) {
      while (this.#at < this.#bytes.length && isSpace(this.#bytes[this.#at])) this.#at += 1;
      if (this.#at < this.#bytes.length) return this.#bytes[this.#at++];
      this.#more();
    }
  }

  #value() {
    this.#next();
    this.#at -= 1;
    let end;
    while ((end = this.#end()) === undefined) this.#more();
    let text;
    try {
      text = decode(this.#bytes.subarray(this.#at, end));
    } catch {
      throw new Failure('upstream', 'the document is no UTF-8');
    }
    this.#at = end;
    try {
      return JSON.parse(text);
    } catch {
      return new Odd(text);
    }
  }

  /** Where a value ends, by its quotes and brackets; undefined: not in the bytes that are here. */
  #end() {
    const bytes = this.#bytes;
    let depth = 0;
    for (let at = this.#at; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        for (at += 1; at < bytes.length && bytes[at] !== QUOTE; at += 1) if (bytes[at] === BACKSLASH) at += 1;
        if (at >= bytes.length) return undefined;
        if (depth === 0) return at + 1;
      } else if (byte === LIST || byte === OBJECT) {
        depth += 1;
      } else if (byte === END_OF_LIST || byte === END_OF_OBJECT) {
        depth -= 1;
        if (depth <= 0) return at + 1;
      } else if (depth === 0) {
        // A number, a word, or what should be one.
        for (at += 1; at < bytes.length; at += 1) {
          if (isSpace(bytes[at]) || [COMMA, COLON, QUOTE, LIST, END_OF_LIST, OBJECT, END_OF_OBJECT].includes(bytes[at])) return at;
        }
      }
    }
    return undefined;
  }
}
