/** What makes an answer valid, in the words of the host: `sdk/rules` in JavaScript, for `@topoloom/sdk/testing`. */

import { decode, encode, size, unpack } from './index.js';

const SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const LABEL = /^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$/;
const RESERVED = 'volcano.sh/network-topology-source';

/** The first thing that keeps an answer from meaning something: offsets, positions, counts and lengths of texts. */
export function malformed({ outcome, state }, rows, hadState) {
  if (state.length > 8 << 20) return `the state of the answer is larger than ${8 << 20} bytes`;
  if (outcome.tag === 'unchanged') {
    return hadState ? undefined : 'the answer is not valid: it answers `unchanged`, but has no state of an earlier answer';
  }
  for (const words of checks(outcome.val, rows)) if (words) return words;
  return undefined;
}

const many = (what, count, most) => count > most && `the plugin exceeded a limit: it has ${count} ${what} and may have ${most}`;
const short = (what, text) => {
  const bytes = size(text ?? '');
  return bytes > 4096 && `the plugin exceeded a limit: ${what} is ${bytes} bytes long, at most 4096 are read`;
};
const beyond = (numbers, bound, words) => {
  const most = numbers.reduce((largest, number) => Math.max(largest, number), -1);
  return most >= bound && `the answer is not valid: ${words(most)}`;
};
const count = ({ tag, val }) => (tag === 'selector' ? 1 : (tag === 'names' ? val.ends : val).length);
const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

function* checks({ levels, groups, diagnostics }, rows) {
  const all = groups.length;
  yield many('groups', all, 2 * rows + 100);
  yield many('levels', levels.length, 2 * rows + 100);
  yield many('diagnostics', diagnostics.length, 10_000);
  for (const { tierName, kind } of levels) yield short('a tier name', tierName) || short('a kind', kind);
  const named = diagnostics.filter(({ subject }) => subject.tag === 'rows').map(({ subject }) => subject.val.length);
  yield many('members', sum(groups.map(({ members }) => count(members))), 16 * rows + 100_000);
  yield many('rows in diagnostics', sum(named), 16 * rows + 100_000);
  for (const [at, { id, level, labels, members, fixedName }] of groups.entries()) {
    const { tag, val } = members;
    yield beyond([level], levels.length, (it) => `group ${at} is of level ${it} and there are ${levels.length} levels`);
    yield short('a group id', id) || short('a fixed name', fixedName) || many('labels in one group', labels.length, 64);
    for (const [key, value] of labels) yield short('a label key', key) || short('a label value', value);
    if (tag === 'rows') yield beyond(val, rows, (it) => `group ${at} has node row ${it} and there are ${rows} nodes`);
    else if (tag === 'groups') yield beyond(val, all, (it) => `group ${at} has group ${it} and there are ${all} groups`);
    else if (tag === 'names') for (const name of unpack(val)) yield short('a member name', name);
    else yield* selector(at, val);
  }
  for (const { code, subject } of diagnostics) {
    yield short('a diagnostic code', code);
    const [is, val] = [subject.tag, subject.val];
    if (is === 'rows') yield beyond(val, rows, (it) => `a diagnostic names node row ${it} and there are ${rows} nodes`);
    if (is === 'group') yield beyond([val], all, (it) => `a diagnostic names group ${it} and there are ${all} groups`);
  }
}

function* selector(at, { matchLabels, matchExpressions }) {
  yield many('requirements in one selector', matchLabels.length + matchExpressions.length, 64);
  yield many('values in one selector', sum(matchExpressions.map(({ values }) => values.length)), 1000);
  const texts = [...matchLabels.flat(), ...matchExpressions.flatMap(({ key, values }) => [key, ...values])];
  for (const text of texts) yield short('a text of a selector', text);
  const keys = new Set(matchLabels.map(([key]) => key));
  yield keys.size < matchLabels.length && `the answer is not valid: the selector of group ${at} has a label key twice`;
}

/** Every rule of topologies that an answer breaks, or undefined. */
export function invalid({ outcome }, nodes) {
  if (outcome.tag === 'unchanged') return undefined;
  const judge = new Judge(outcome.val, nodes);
  judge.groups();
  judge.links();
  judge.diagnostics();
  const [found, keys] = [judge.found, judge.keys.size];
  const more = found.length > 100 ? `; and ${found.length - 100} more` : '';
  if (found.length > 0) return `the topology is not valid: ${found.slice(0, 100).join('; ')}${more}`;
  return keys > 64 ? `its selectors read ${keys} different labels and may read 64` : undefined;
}

class Judge {
  constructor(said, nodes) {
    Object.assign(this, { said, nodes, found: [], about: '', keys: new Set() });
    this.levels = said.groups.map(({ level }) => said.levels[level]);
  }

  broken(isSo, words) {
    if (isSo) this.found.push(this.about + words);
  }

  name(what, rule) {
    this.broken(rule, `${what}: ${rule}`);
  }

  groups() {
    const [ids, fixed, tiers] = [new Set(), new Set(), new Map()];
    this.said.groups.forEach(({ id, labels, members, fixedName }, at) => {
      const { tier, tierName, kind } = this.levels[at];
      const isLong = size(id) < 1 || size(id) > 512;
      this.about = '';
      this.broken(isLong, `the id of the group at position ${at} is ${size(id)} bytes long, 1 to 512 are allowed`);
      this.about = `group ${quoted(id)}: `;
      this.broken(!isLong && ids.has(id), 'the id is used by an earlier group of this answer');
      ids.add(id);
      this.broken(tier < 1 || tier > 16, `tier ${tier} is not between 1 and 16`);
      const room = 'a kind may have 203 to leave room for the rest of the object name';
      this.broken(size(kind ?? '') > 203, `kind: is ${size(kind ?? '')} bytes long, ${room}`);
      if (fixedName !== undefined) {
        const rule = nameRule(fixedName, SUBDOMAIN, 253);
        this.name(`fixed name ${quoted(fixedName)}`, rule);
        const twice = !rule && fixed.has(fixedName);
        this.broken(twice, `fixed name "${fixedName}" is used by an earlier group of this answer`);
        fixed.add(fixedName);
      }
      const bytes = size(tierName ?? '');
      this.broken(bytes > 253, `the tier name is ${bytes} bytes long, at most 253 are allowed`);
      if (bytes > 0 && bytes <= 253) {
        if (!tiers.has(tierName)) tiers.set(tierName, { other: tier, first: id });
        const { other, first } = tiers.get(tierName);
        const here = `tier name ${quoted(tierName, bytes)} means tier ${tier} here`;
        this.broken(other !== tier, `${here} and tier ${other} in group ${quoted(first)}`);
      }
      const known = new Set();
      for (const [key, value] of labels) {
        this.name(`label key ${quoted(key)}`, keyRule(key));
        this.broken(key === RESERVED, `label "${key}" is written by the host alone`);
        this.name(`value ${quoted(value)} of label ${quoted(key)}`, valueRule(value));
        this.broken(known.has(key), `label ${quoted(key)} is given twice`);
        known.add(key);
      }
      this.members(members, tier >= 1 && tier <= 16);
    });
  }

  members(members, hasTier) {
    const { tag, val } = members;
    const names = new Set();
    let [number, bytes] = [count(members), 0];
    if (tag === 'rows' && hasTier) {
      for (const row of val) {
        this.broken(names.has(row), `row ${row} is a member twice`);
        names.add(row);
      }
      bytes = sum([...names].map((row) => size(this.nodes[row])));
    } else if (tag === 'names') {
      for (const name of unpack(val)) {
        this.name(`member ${quoted(name)}`, nameRule(name, SUBDOMAIN, 253));
        names.add(name);
      }
      [number, bytes] = [names.size, sum([...names].map(size))];
    } else if (tag === 'groups') {
      bytes = 64 * number;
    } else if (tag === 'selector') {
      this.selector(val);
    }
    this.broken(number === 0, 'the group has no members');
    bytes += 65 * number;
    const remedy = 'split the group, or select its nodes by a label';
    this.broken(bytes > 1258291, `${number} members make an object of about ${bytes} bytes, at most 1258291 fit: ${remedy}`);
  }

  selector({ matchLabels, matchExpressions }) {
    const isEmpty = matchLabels.length + matchExpressions.length === 0;
    this.broken(isEmpty, 'selector: it is empty and would select nothing');
    // By code points, which is the order of bytes of UTF-8; keys that pass the rule are ASCII.
    const points = ([key]) => Array.from(key, (character) => character.codePointAt(0).toString(16).padStart(6, '0')).join('');
    const pairs = [...matchLabels].sort((a, b) => (points(a) < points(b) ? -1 : 1));
    for (const [key, value] of pairs) this.requirement(key, [value], false);
    for (const { key, operator, values } of matchExpressions) {
      this.requirement(key, values, values.length > 0 !== ['in', 'not-in'].includes(operator));
    }
  }

  requirement(key, values, isWrong) {
    this.keys.add(key);
    this.name(`selector: key ${quoted(key)}`, keyRule(key));
    const rule = 'In and NotIn need at least one value, Exists and DoesNotExist must have none';
    this.broken(isWrong, `selector: key ${quoted(key)}: ${rule}`);
    for (const value of values) this.name(`selector: value ${quoted(value)} of ${quoted(key)}`, valueRule(value));
  }

  links() {
    const [parents, { groups }] = [new Map(), this.said];
    groups.forEach(({ id, members }, at) => {
      this.about = `group ${quoted(id)}: `;
      for (const child of members.tag === 'groups' ? members.val : []) {
        const [name, { tier }] = [quoted(groups[child].id), this.levels[child]];
        const parentTier = this.levels[at].tier;
        this.broken(tier >= parentTier, `member group ${name} has tier ${tier}, which is not below ${parentTier}`);
        this.broken(parents.get(child) === at, `group ${name} is a member twice`);
        if (!parents.has(child)) parents.set(child, at);
        const parent = quoted(groups[parents.get(child)].id);
        const already = `it is already a member of group ${parent}`;
        this.broken(parents.get(child) !== at, `member group ${name} has two parents: ${already}`);
      }
    });
  }

  diagnostics() {
    this.about = '';
    for (const { code } of this.said.diagnostics) {
      const words = `diagnostic code ${quoted(code)}: 1 to 64 of a-z, 0-9 and '-' are allowed`;
      this.broken(!/^[a-z0-9-]{1,64}$/.test(code), words);
    }
  }
}

/** The first thing that is wrong with what `configure` asks for, or undefined. */
export function wishes(wanted) {
  for (const words of wished(wanted)) if (words) return words;
  return undefined;
}

function* wished({ nodeLabels, nodeAnnotations, endpoints, triggers }) {
  yield many('required node labels', nodeLabels.length, 64);
  yield many('required node annotations', nodeAnnotations.length, 64);
  yield many('endpoints', endpoints.length, 16);
  yield many('triggers', triggers.length, 16);
  for (const key of [...nodeLabels, ...nodeAnnotations]) {
    const rule = keyRule(key);
    yield rule && `the answer is not valid: it asks for the node label or annotation ${quoted(key)}: ${rule}`;
  }
  for (const { name, location, methods, paths, tls, credentials } of endpoints) {
    const { tag, val } = location;
    const located = tag === 'urls' ? val : tag === 'granted' ? [] : [val.namespace ?? '', val.name, val.key];
    yield many('URLs of one endpoint', located.length, 64);
    yield many('methods of one endpoint', methods.length, 64);
    yield many('paths of one endpoint', paths.length, 64);
    yield many('kinds of credential of one endpoint', credentials.length, 64);
    for (const text of [...located, ...paths, tls.serverName, name]) yield short('a text of an endpoint', text);
    const bytes = size(tls.caBundle ?? '');
    const words = `a bundle of certificates is ${bytes} bytes long, at most ${1 << 20} are read`;
    yield bytes > 1 << 20 && `the plugin exceeded a limit: ${words}`;
  }
}

const HEADERS =
  'accept, accept-charset, accept-language, cache-control, content-language, content-type, if-match, if-modified-since, ' +
  'if-none-match, if-unmodified-since, pragma, x-request-id';

/** Why a plugin may not set these headers, or undefined. */
export function headersRule(asked) {
  if (asked.length > 32) return `${asked.length} headers, at most 32 may be set`;
  const rule = ([name, value]) => {
    if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) return 'has no valid name';
    if (!HEADERS.split(', ').includes(name.toLowerCase())) return `belongs to the host; a plugin may set ${HEADERS}`;
    if (size(value) > 4096) return 'is longer than 4096 bytes';
    return /^[\t -~]*$/.test(value) ? undefined : 'has a value with a control character or a character beyond ASCII';
  };
  const bad = asked.find((header) => rule(header));
  return bad && `the header ${quoted(bad[0])} ${rule(bad)}`;
}

/** What two readers of a path could understand differently, or undefined. */
export function pathRule(text) {
  if (size(text) > 4096) return 'it is longer than 4096 bytes';
  if (text !== '' && !text.startsWith('/')) return 'it does not begin with `/`';
  if (!/^[!-~]*$/.test(text)) return 'it has a space, a control character or a character beyond ASCII; encode it';
  if (text.includes('#')) return 'it has a fragment';
  let [seen] = text.split('?');
  for (let times = 0; times < 4; times += 1) {
    if (seen.includes('\\')) return 'it has a backslash';
    if (/\p{Cc}/u.test(seen)) return 'it has an encoded control character';
    if (seen.startsWith('//')) return 'it begins with `//`, which could name another host';
    const segments = seen.split('/').slice(1);
    if (segments.some((part) => ['.', '..'].includes(part.split(';')[0]))) return 'it has a `.` or `..` segment';
    const following = decoded(seen);
    if (following === undefined) return 'it has a `%` that begins no encoded character';
    if (following === seen) return undefined;
    seen = following;
  }
  return 'it is encoded over and over';
}

/** A path with its encoded characters decoded once. A slash becomes a backslash: not every reader separates by it. */
function decoded(text) {
  const bytes = [];
  for (let at = 0; at < text.length; ) {
    const point = text.codePointAt(at);
    const [character, digits] = [String.fromCodePoint(point), text.slice(at + 1, at + 3)];
    if (character !== '%') bytes.push(...encode(character));
    else if (/^[0-9a-fA-F]{2}$/.test(digits)) bytes.push(digits.toLowerCase() === '2f' ? 0x5c : parseInt(digits, 16));
    else return undefined;
    at += character === '%' ? 3 : character.length;
  }
  try {
    return decode(Uint8Array.from(bytes));
  } catch {
    return undefined;
  }
}

const ESCAPES = { '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\0': '\\0' };
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Zs}]/u;

/** A text of an answer, shortened for a message. */
export function quoted(text, most = 80) {
  const characters = Array.from(text);
  const shown = characters.slice(0, most).map((it) => {
    const isHidden = it !== ' ' && HIDDEN.test(it);
    return ESCAPES[it] ?? (isHidden ? `\\u{${it.codePointAt(0).toString(16)}}` : it);
  });
  return `"${shown.join('')}"${characters.length > most ? '…' : ''}`;
}

/** Why a text is no name of a kind. */
function nameRule(text, rule, most) {
  const bytes = size(text);
  const label = "letters, digits, '-', '_' and '.', and begin and end with a letter or digit";
  const parts = "lower-case letters, digits, '-' and '.', and each part between dots must begin and end with a letter or digit";
  if (bytes === 0) return 'must not be empty';
  if (bytes > most) return `is ${bytes} bytes long, at most ${most} are allowed`;
  return rule.test(text) ? undefined : `must consist of ${rule === SUBDOMAIN ? parts : label}`;
}

function keyRule(text) {
  const at = text.indexOf('/');
  if (at < 0) return nameRule(text, LABEL, 63);
  const [prefix, name] = [text.slice(0, at), text.slice(at + 1)];
  if (name.includes('/')) return "must have at most one '/', between an optional prefix and the name";
  return nameRule(prefix, SUBDOMAIN, 253) ?? nameRule(name, LABEL, 63);
}

const valueRule = (text) => (text === '' ? undefined : nameRule(text, LABEL, 63));
