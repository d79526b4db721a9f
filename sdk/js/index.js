/**
 * Write a topology discoverer for topoloom in JavaScript.
 *
 *     import { Topology, on, plugin, requirements } from '@topoloom/sdk';
 *
 *     export const discoverer = plugin({
 *       name: 'racks', version: '0.1.0', vendor: 'Acme', summary: 'One group per rack label',
 *       fields: { label: 'string' },
 *       configure: ({ label }) => requirements({ labels: [label], triggers: [on('columns')] }),
 *       discover({ label }, { nodes }) {
 *         const topology = new Topology();
 *         const racks = topology.level(1, { name: label });
 *         for (const [rack, rows] of nodes.label(label).byValue()) {
 *           topology.group(racks, rack, { rows, labels: { [label]: rack } });
 *         }
 *         return topology;
 *       },
 *     });
 *
 * The object runs natively in a test (`@topoloom/sdk/testing`) and as a component. What it uses of its host is in it, too: `http`,
 * `applied` and `log` are the modules `@topoloom/sdk/http`, `…/applied` and `…/log`. An exception that is no `Failure` is in the host's
 * log, with its place, before it ends the call. Nothing is retried, no state is global, and no global of an engine is needed.
 */

import { configured, read, schemaOf } from './config.js';

/** Why a round has no answer: `config`, `denied`, `unauthorized`, `upstream` or `internal`. The topology stays. */
export class Failure extends Error {
  /** `retryAfter` is in milliseconds; `cause` is why a request had no answer, as in `httpError`. */
  constructor(kind, message, retryAfter, cause) {
    super(message);
    const pause = retryAfter === undefined ? undefined : BigInt(retryAfter);
    const payload = { tag: kind, val: kind === 'upstream' ? { message, retryAfter: pause } : message };
    Object.assign(this, { name: 'Failure', kind, retryAfter, cause, payload });
  }
}

/** What is wrong with a configuration: pairs of path and message, all of them at once. */
export class Problems extends Error {
  constructor(...problems) {
    super(problems.map(([path, message]) => (path ? `${path}: ${message}` : message)).join('; '));
    Object.assign(this, { name: 'Problems', payload: problems.map(([path, message]) => ({ path, message })) });
  }
}

/** How many bytes of UTF-8 a text has. `TextEncoder` is not in every engine. */
export function size(text) {
  let bytes = 0;
  for (const character of text) {
    const point = character.codePointAt(0);
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/** A text without halves of pairs of UTF-16: U+FFFD is in place of each, as a `TextEncoder` has it. Two of them would make a pair. */
const whole = (text) => text.replace(/[\ud800-\udfff]/gu, '\ufffd');

/** A text as bytes of UTF-8: what a state is made of. */
export function encode(text) {
  const bytes = [];
  for (const character of whole(text)) {
    const point = character.codePointAt(0);
    if (point < 0x80) bytes.push(point);
    else {
      const more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
      bytes.push(((0xff00 >> (more + 1)) & 0xff) | (point >> (6 * more)));
      for (let at = more - 1; at >= 0; at -= 1) bytes.push(0x80 | ((point >> (6 * at)) & 0x3f));
    }
  }
  return Uint8Array.from(bytes);
}

/** Bytes of UTF-8 as a text; anything else throws. */
export function decode(bytes) {
  if (typeof TextDecoder === 'function') return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++];
    const more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    let point = more ? first & (0x3f >> more) : first;
    for (let left = more; left > 0; left -= 1) {
      if (first < 0xc2 || first > 0xf4 || (bytes[at] & 0xc0) !== 0x80) throw new TypeError('the bytes are no UTF-8');
      point = (point << 6) | (bytes[at++] & 0x3f);
    }
    const isLong = point < [0, 0x80, 0x800, 0x10000][more] || point > 0x10ffff;
    if (isLong || (point >= 0xd800 && point <= 0xdfff)) throw new TypeError('the bytes are no UTF-8');
    text += String.fromCodePoint(point);
  }
  return text;
}

/** Many strings as one text. Its `ends` count bytes of UTF-8: they are no positions in a string. */
export function pack(texts) {
  const [all, ends] = [Array.from(texts, whole), []];
  let length = 0;
  for (const text of all) ends.push((length += size(text)));
  return { text: all.join(''), ends: Uint32Array.from(ends) };
}

/** The strings of a packed text. */
export function unpack({ text, ends }) {
  let [at, bytes] = [0, 0];
  return Array.from(ends, (end) => {
    const from = at;
    while (bytes < end) {
      const point = text.codePointAt(at);
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      at += point < 0x10000 ? 1 : 2;
    }
    return text.slice(from, at);
  });
}

/** One label or annotation key over all nodes. Two nodes have the same value exactly when they have the same code. */
export class Column {
  /** Code 0: the node lacks the key; n: text n-1. */
  constructor(texts, codes) {
    Object.assign(this, { texts, codes });
  }

  /** The value of each node, by row; undefined when the node lacks the key. */
  values() {
    return Array.from(this.codes, (code) => this.texts[code - 1]);
  }

  /** The nodes of each value that at least one node has: pairs of value and rows in ascending order. */
  byValue() {
    const rows = this.texts.map(() => []);
    const { codes } = this;
    for (let row = 0; row < codes.length; row += 1) if (codes[row]) rows[codes[row] - 1].push(row);
    return this.texts.map((text, at) => [text, rows[at]]).filter(([, members]) => members.length > 0);
  }
}

/** The nodes of the cluster: rows 0 to `rows`-1, in no particular order, valid for this call only. */
export class Nodes {
  #source;

  constructor(source) {
    this.#source = source;
  }

  /** How many nodes there are. */
  get rows() {
    return this.#source.rows();
  }

  /** The column of a label key of the requirements. Any other key is absent on every node. */
  label(key) {
    const { dictionary, codes } = this.#source.label(key);
    return new Column(unpack(dictionary), codes);
  }

  /** The column of an annotation key of the requirements. */
  annotation(key) {
    const { dictionary, codes } = this.#source.annotation(key);
    return new Column(unpack(dictionary), codes);
  }

  /** The names of all nodes, by row. Prefer `find`, which copies less. */
  names() {
    return unpack(this.#source.names());
  }

  /** The rows of nodes with these names; undefined where there is no such node. */
  find(names) {
    return Array.from(this.#source.find(pack(names)), (found) => (found ? found - 1 : undefined));
  }
}

/** Rows and positions as the interface has them. `Uint32Array` alone makes row 0 of `undefined`, and of 2 to the 32nd. */
function numbers(what, list) {
  const given = ArrayBuffer.isView(list) ? list : Array.from(list);
  const made = new Uint32Array(given.length);
  for (let at = 0; at < made.length; at += 1) {
    const number = given[at];
    if (typeof number !== 'number' || number >>> 0 !== number) {
      throw new TypeError(`${what}: ${String(number)} is no integer from 0 to 4294967295; leave out what was not found`);
    }
    made[at] = number;
  }
  return made;
}

/** The answer under construction, groups lowest tier first. `state` is for the next round, at most 8 MiB. */
export class Topology {
  constructor({ additionsOnly = false, state = new Uint8Array() } = {}) {
    this.state = state;
    this.topology = { coverage: additionsOnly ? 'additions-only' : 'complete', levels: [], groups: [], diagnostics: [] };
  }

  /** A tier, 1 (closest) to 16, the name that users have for it, and a word for names of objects. */
  level(tier, { name, kind } = {}) {
    return this.topology.levels.push({ tier, tierName: name, kind }) - 1;
  }

  /** A group with one kind of members. `id` is the same in every round as long as the domain is the same. */
  group(level, id, { rows, groups, names, selector, labels = {}, description, fixedName }) {
    const members = [
      rows && { tag: 'rows', val: numbers(`rows of the group ${id}`, rows) },
      groups && { tag: 'groups', val: numbers(`groups of the group ${id}`, groups) },
      names && { tag: 'names', val: pack(names) },
      selector && { tag: 'selector', val: { matchLabels: Object.entries(selector), matchExpressions: [] } },
    ].filter(Boolean);
    if (members.length !== 1) throw new TypeError(`the group ${id} needs one of rows, groups, names and selector`);
    const [at] = numbers(`level of the group ${id}`, [level]);
    const group = { id, level: at, labels: Object.entries(labels), members: members[0], description, fixedName };
    return this.topology.groups.push(group) - 1;
  }

  /** Reports a record that was dropped or corrected: a short stable word, and a sentence with the value met. */
  diagnose(code, detail, { rows, group, name } = {}) {
    let subject = name === undefined ? { tag: 'source' } : { tag: 'name', val: name };
    if (group !== undefined) subject = { tag: 'group', val: numbers(`group of ${code}`, [group])[0] };
    if (rows !== undefined) subject = { tag: 'rows', val: numbers(`rows of ${code}`, rows) };
    this.topology.diagnostics.push({ code, subject, detail });
  }

  /** The answer of the interface. */
  answer() {
    return { outcome: { tag: 'topology', val: this.topology }, state: this.state };
  }
}

/** Exactly what the last answer said. Only after an answer whose state came back in `input.state`. */
export const unchanged = (state) => ({ outcome: { tag: 'unchanged' }, state });

/** A round starts when required `columns` change, when `names` appear or go, when the `timer` of the entry has passed. */
export const on = (what, atLeast = 0) => ({ tag: what, val: { atLeast } });

/** An endpoint whose address the operator configures: `purpose` is a sentence for him, `credentials` are best first. */
export const endpoint = (name, purpose, { paths = [], methods = ['get'], credentials = [] } = {}) => {
  const tls = { caBundle: undefined, serverName: undefined, insecureSkipVerify: false };
  return { name, purpose, location: { tag: 'granted' }, methods, paths, tls, credentials };
};

/** What a configuration needs: label and annotation keys, endpoints, and what starts a round. */
export const requirements = ({ labels = [], annotations = [], endpoints = [], triggers = [] }) => ({
  nodeLabels: labels, nodeAnnotations: annotations, endpoints, triggers,
});

const CAUSES = { connect: 'no connection: ', timeout: 'out of time: ', 'too-large': 'too large: ', protocol: 'protocol error: ' };

/** A request without an answer (`denied`, `connect`, `timeout`, `too-large`, `protocol`) as the failure of the round. */
export const httpError = (cause, reason) =>
  new Failure(cause in CAUSES ? 'upstream' : 'denied', (CAUSES[cause] ?? '') + reason, undefined, cause);

/** Calls the host; an error of the interface becomes one of ours. */
function asked(ask) {
  try {
    return ask();
  } catch (error) {
    const said = error?.payload ?? error;
    throw error instanceof Failure || typeof said?.tag !== 'string' ? error : httpError(said.tag, said.val);
  }
}

/** An answer whose body is still on its way. Any status arrives here, 3xx and 401 too. Names of headers are lower-case. */
export class Response {
  #source;

  constructor(source) {
    this.#source = source;
    this.status = source.status();
    this.headers = Object.fromEntries([...source.headers()].reverse());
  }

  /** Itself when the status is 200 to 299; any other one throws the failure that fits. */
  success() {
    const { status, headers } = this;
    if (status >= 200 && status <= 299) return this;
    this.close();
    if (status === 401 || status === 403) throw new Failure('unauthorized', `status ${status}`);
    if (status === 304) throw new Failure('upstream', 'status 304 to a request that did not ask for it');
    const to = JSON.stringify(headers.location ?? '');
    if (status >= 300 && status <= 399) throw new Failure('upstream', `status ${status}: redirects to ${to}`);
    const seconds = (headers['retry-after'] ?? '').trim();
    throw new Failure('upstream', `status ${status}`, /^[0-9]{1,9}$/.test(seconds) ? Number(seconds) * 1000 : undefined);
  }

  /** The next piece of the body; empty at its end. A body that breaks off throws. */
  read(most = 256 * 1024) {
    const piece = this.#source ? asked(() => this.#source.read(most)) : new Uint8Array();
    if (piece.length === 0) this.close();
    return piece;
  }

  /** Gives the answer back: a call has at most eight of them at one time. */
  close() {
    this.#source?.[Symbol.dispose ?? Symbol.for('dispose')]?.();
    this.#source = undefined;
  }
}

const absent = () => {
  throw new TypeError('the definition has no `http`; give it the module @topoloom/sdk/http');
};

/** The endpoints that the operator granted, by name: the host knows the address and adds the credential. */
export class Http {
  #source;

  constructor(source = { send: absent, credentialOf: absent }) {
    this.#source = source;
  }

  /** Sends a request. Returns with the head of the answer; the body follows. */
  send(name, path = '', { method = 'get', headers = {}, body } = {}) {
    const request = { endpoint: name, method, pathAndQuery: path, headers: Object.entries(headers), body };
    return new Response(asked(() => this.#source.send(request)));
  }

  /** The kind of credential that the host adds: `none`, `basic`, `token`, `bearer` or `mtls`. */
  credentialOf(name) {
    return asked(() => this.#source.credentialOf(name));
  }
}

const LEVELS = ['debug', 'info', 'warn', 'error'];

/** One round of a definition: natively, and in a component. The interface has one failure for all problems here. */
export function round(definition, config, nodes, { time, state }, { http, applied, log }) {
  const logged = (level, message) => {
    if (!LEVELS.includes(level)) throw new TypeError(`the log has no level ${level}; use one of ${LEVELS.join(', ')}`);
    log?.write?.(level, message);
  };
  const input = { nodes: new Nodes(nodes), http: new Http(http), applied, log: logged, time: Number(time), state };
  try {
    const answer = definition.discover(read(definition, config), input);
    return answer instanceof Topology ? answer.answer() : answer;
  } catch (error) {
    throw error instanceof Problems ? new Failure('config', error.message) : error;
  }
}

/** An exception on one line, with the three innermost places. */
function place(error) {
  const lines = String(error?.stack ?? '').split('\n').map((line) => line.trim());
  const places = lines.filter((line) => /^at |@/.test(line)).slice(0, 3);
  return `${error}, ${places.map((line) => line.replace(/^at /, '')).join(' < ')}`;
}

/** Makes a definition the exported `discoverer` of a component. A test uses it through `Cluster` of `@topoloom/sdk/testing`. */
export function plugin(definition) {
  const guarded = (ask, told) => {
    try {
      return ask();
    } catch (error) {
      if (error instanceof Failure || error instanceof Problems) throw error;
      definition.log?.write?.('error', place(error));
      throw definition.log || !told ? error : told(place(error)); // Where there is no log, the answer says it.
    }
  };
  const { name, version, vendor = '', summary = '' } = definition;
  return {
    definition,
    describe: () => guarded(() => ({ name, version, vendor, summary, configSchema: schemaOf(definition) })),
    configure: (config) => guarded(() => configured(definition, config), (words) => new Problems(['', words])),
    discover: (config, nodes, asks) =>
      guarded(() => round(definition, config, nodes, asks, definition), (words) => new Failure('internal', words)),
  };
}

export { read, schemaOf } from './config.js';
export { Elements, Odd } from './elements.js';
