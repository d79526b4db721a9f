/**
 * A cluster in memory: the first test of a discoverer needs neither WebAssembly nor Kubernetes.
 *
 * It grants and judges as the host does: a column that `configure` did not ask for is empty, an endpoint that it did not ask for is
 * refused, and an answer that the host would refuse is a `Failure` with the words of the host.
 *
 *     const cluster = new Cluster().node('m1', { rack: 'a7' }).node('m2', { rack: 'a7' }).node('m3');
 *     const answer = cluster.discover(discoverer, { label: 'rack' });
 *     assert.equal(cluster.show(answer), 'tier 1 rack | a7 | rack=a7 | m1 m2\n');
 */

import { configured } from './config.js';
import { Failure, Problems, encode, httpError, pack, round, unpack } from './index.js';
import { headersRule, invalid, malformed, pathRule, quoted, wishes } from './rules.js';

/** Texts in the order of their bytes. */
const sorted = (texts) => [...texts].sort((a, b) => {
  const [left, right] = [encode(a), encode(b)];
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at < 0 ? left.length - right.length : left[at] - (right[at] ?? -1);
});

/** Nodes, endpoints, grants, time and state of a round. Each method that adds returns the cluster. */
export class Cluster {
  nodes = [];
  endpoints = {};
  permitted = {};
  objects = [];
  time = 0;
  state = new Uint8Array();
  log = [];

  /** Adds a node. */
  node(name, labels = {}, annotations = {}) {
    this.nodes.push({ name, labels, annotations });
    return this;
  }

  /**
   * Answers the requests to an endpoint: `answer` gives `{ status, body, headers }` or throws `httpError`. A body is a text, bytes, or a
   * list of both that arrives piece by piece; an `Error` among them breaks it off.
   */
  endpoint(name, answer, credential = 'none') {
    this.endpoints[name] = { answer, credential };
    return this;
  }

  /** What the operator grants of `labels`, `annotations` (keys, or `acme.example/*`) and `endpoints`; without this, all. */
  permit(permissions) {
    Object.assign(this.permitted, permissions);
    return this;
  }

  /** One round as the host would run it. Problems of the configuration and a refused answer are failures, too. */
  discover(plugin, config) {
    const [definition, text] = [plugin.definition ?? plugin, typeof config === 'string' ? config : JSON.stringify(config)];
    let wanted;
    try {
      wanted = configured(definition, text);
    } catch (error) {
      throw error instanceof Problems ? new Failure('config', error.message) : error;
    }
    const odd = wishes(wanted);
    if (odd) throw new Failure('internal', odd);
    const denied = this.#denied(wanted).join('; ');
    if (denied) throw new Failure('denied', `the plugin requests what is not granted: ${denied}`);
    this.log = [];
    const log = { write: (level, message) => this.log.length < 200 && this.log.push([level, message]) };
    // A component has what its definition has, and no more.
    const host = {
      log: definition.log && log,
      applied: definition.applied && { groups: () => this.objects },
      http: definition.http && this.#http(wanted),
    };
    const answer = round(definition, text, this.#snapshot(wanted), { time: this.time, state: this.state }, host);
    const refused = this.judge(answer);
    if (refused) throw new Failure('internal', refused);
    return answer;
  }

  /** The same, and the state of the answer is that of the next round. An empty `state` is a restart of the host. */
  round(plugin, config) {
    const answer = this.discover(plugin, config);
    this.state = answer.state;
    return answer;
  }

  /** What the host says to an answer: undefined, or the sentence with which it refuses it. */
  judge(answer) {
    const names = this.nodes.map(({ name }) => name);
    return malformed(answer, names.length, this.state.length > 0) ?? invalid(answer, names);
  }

  /** An answer as text, one line per group and diagnostic, sorted: for tests to compare. */
  show({ outcome }) {
    if (outcome.tag === 'unchanged') return 'unchanged\n';
    const { coverage, levels, groups, diagnostics } = outcome.val;
    const names = (rows) => sorted(Array.from(rows, (row) => this.nodes[row].name)).join(' ');
    const list = (texts) => `[${texts.join(', ')}]`;
    const requirement = ({ key, operator, values }) => {
      const word = operator.replace(/(^|-)([a-z])/g, (_, dash, letter) => letter.toUpperCase());
      return `LabelRequirement { key: ${quoted(key)}, operator: LabelOperator::${word}, values: ${list(values.map((it) => quoted(it)))} }`;
    };
    const members = ({ tag, val }) => {
      if (tag === 'rows') return names(val);
      if (tag === 'groups') return `[${sorted(Array.from(val, (at) => groups[at].id)).join(' ')}]`;
      if (tag === 'names') return `names ${unpack(val).join(' ')}`;
      const labels = val.matchLabels.map(([key, value]) => `(${quoted(key)}, ${quoted(value)})`);
      return `LabelSelector { match-labels: ${list(sorted(labels))}, match-expressions: ${list(val.matchExpressions.map(requirement))} }`;
    };
    const lines = groups.map((group) => {
      const [{ tier, tierName = '-' }, pairs] = [levels[group.level], group.labels.map((pair) => pair.join('='))];
      const more = (word, text) => (text === undefined ? '' : ` | ${word} ${text}`);
      const end = more('name', group.fixedName) + more('said', group.description);
      return `tier ${tier} ${tierName} | ${group.id} | ${sorted(pairs).join(' ')} | ${members(group.members)}${end}`;
    });
    const about = ({ tag, val }) => {
      if (tag === 'rows') return names(val);
      return { source: 'source', group: groups[val]?.id, name: val }[tag];
    };
    const reports = diagnostics.map(({ code, subject, detail }) => `! ${code} | ${about(subject)} | ${detail}`);
    const first = coverage === 'additions-only' ? ['additions only'] : [];
    return [...first, ...sorted(lines), ...sorted(reports)].map((line) => `${line}\n`).join('');
  }

  #denied({ nodeLabels, nodeAnnotations, endpoints }) {
    const covers = (key) => (it) => it === key || (it.endsWith('/*') && key.startsWith(it.slice(0, -1)));
    const keys = (kind, word, asked) => asked
      .filter((key) => !(this.permitted[kind] ?? [key]).some(covers(key)))
      .map((key) => `the plugin reads the node ${word} ${key}, which is not permitted`);
    const calls = endpoints
      .filter(({ name }) => !(this.permitted.endpoints ?? [name]).includes(name))
      .map(({ name, purpose }) => `the plugin calls the endpoint ${name} (${purpose}), which is not permitted`);
    return [...keys('labels', 'label', nodeLabels), ...keys('annotations', 'annotation', nodeAnnotations), ...calls];
  }

  #snapshot({ nodeLabels, nodeAnnotations }) {
    const column = (kind, keys) => (key) => {
      const [known, codes] = [new Map(), []];
      for (const node of this.nodes) {
        const value = keys.includes(key) ? node[kind][key] : undefined;
        if (value !== undefined && !known.has(value)) known.set(value, known.size + 1);
        codes.push(known.get(value) ?? 0);
      }
      return { dictionary: pack(known.keys()), codes: Uint32Array.from(codes) };
    };
    const names = this.nodes.map(({ name }) => name);
    return {
      rows: () => names.length,
      label: column('labels', nodeLabels),
      annotation: column('annotations', nodeAnnotations),
      names: () => pack(names),
      find: (packed) => Uint32Array.from(unpack(packed), (name) => names.indexOf(name) + 1),
    };
  }

  #http({ endpoints }) {
    const granted = (name) => {
      const wish = endpoints.find((it) => it.name === name);
      if (!wish || !(name in this.endpoints)) throw httpError('denied', `the endpoint ${JSON.stringify(name)} is not granted`);
      return { wish, ...this.endpoints[name] };
    };
    const send = (request) => {
      const { wish, answer } = granted(request.endpoint);
      const deny = (words) => {
        throw httpError('denied', words);
      };
      const path = request.pathAndQuery.split('?')[0] || '/';
      const asked = `the path ${quoted(request.pathAndQuery, request.pathAndQuery.length)}`;
      const method = request.method.toUpperCase();
      if (!wish.methods.includes(request.method)) deny(`${method} is not granted on the endpoint ${wish.name}`);
      if (['GET', 'HEAD'].includes(method) && request.body?.length) deny(`${method} has no body`);
      const [odd, header] = [pathRule(request.pathAndQuery), headersRule(request.headers)];
      if (odd) deny(`${asked} is refused: ${odd}`);
      if (wish.paths.length > 0 && !wish.paths.some((it) => path === it || path.startsWith(`${it.replace(/\/$/, '')}/`))) {
        deny(`${asked} of the endpoint ${wish.name} is not granted, only ${wish.paths.join(', ')}`);
      }
      if (header) deny(header);
      return opened(answer(request));
    };
    return { send, credentialOf: (name) => granted(name).credential };
  }
}

/** An answer as the interface has it: its body is read as far as the discoverer reads it. */
function opened({ status = 200, headers = {}, body = '' }) {
  const pieces = [body].flat();
  const next = (most) => {
    if (pieces.length === 0) return new Uint8Array();
    const first = pieces.shift();
    if (first instanceof Error) throw first;
    const bytes = typeof first === 'string' ? encode(first) : first;
    if (bytes.length > most) pieces.unshift(bytes.subarray(most));
    return bytes.length > 0 ? bytes.subarray(0, most) : next(most);
  };
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { status: () => status, headers: () => lower, read: next };
}
