import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as sdk from '@topoloom/sdk';
import { Cluster } from '@topoloom/sdk/testing';
import { listed, racks } from './racks.js';

const { Column, Elements, Failure, Odd, Topology, decode, encode, httpError, pack, plugin, size, unchanged, unpack } = sdk;

const cluster = () => new Cluster().node('m1', { rack: 'a7' }).node('m2', { rack: 'a7' }).node('m3');

/** The failure that something ends with. */
function failure(act) {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof Failure, String(error.stack));
    return error;
  }
  return assert.fail('it did not fail');
}

/** A response whose body arrives in pieces of this size. */
function pieces(text, length) {
  const bytes = typeof text === 'string' ? encode(text) : text;
  let at = 0;
  return { read: () => bytes.subarray(at, (at += length)) };
}

test('ends are bytes of UTF-8', () => {
  const words = ['a', '', 'zürich', '🙂', 'b'];
  assert.deepEqual([...pack(words).ends], [1, 1, 8, 12, 13]);
  assert.deepEqual(unpack(pack(words)), words);
  assert.deepEqual(unpack(pack(new Set(['x']))), ['x']);
  const halves = pack(['a\ud83d', '\ude42b']);
  assert.deepEqual([halves.text, [...halves.ends]], ['a\ufffd\ufffdb', [4, 8]]);
  assert.deepEqual(unpack(halves), ['a\ufffd', '\ufffdb']);
  assert.deepEqual(encode('\ud83dx'), new TextEncoder().encode('\ud83dx'));
  for (const text of ['', 'aä€🙂\u{10ffff}\u{800}\u{7ff}\u{ffff}']) {
    assert.deepEqual(encode(text), new TextEncoder().encode(text));
    assert.equal(decode(encode(text)), text);
    assert.equal(size(text), encode(text).length);
  }
});

test('an engine without TextDecoder reads the same', () => {
  const known = globalThis.TextDecoder;
  globalThis.TextDecoder = undefined;
  try {
    const texts = ['', 'aä€🙂\u{10ffff}\u{800}\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}', '\ufeffx'];
    for (const text of texts) assert.equal(decode(encode(text)), text);
    const wrong = [[0xff], [0xc3], [0x80], [0xc0, 0x80], [0xe2, 0x82, 0x41], [0xe0, 0x9f, 0xbf], [0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf]];
    for (const bytes of [...wrong, [0xf0, 0x8f, 0xbf, 0xbf], [0xf4, 0x90, 0x80, 0x80], [0xf8, 0x90, 0x80, 0x80]]) {
      assert.throws(() => decode(Uint8Array.from(bytes)), TypeError, String(bytes));
      assert.throws(() => new known('utf-8', { fatal: true }).decode(Uint8Array.from(bytes)), TypeError, String(bytes));
    }
    assert.equal(decode(Uint8Array.of(0xef, 0xbb, 0xbf)), '\ufeff');
  } finally {
    globalThis.TextDecoder = known;
  }
});

test('a column groups rows by value', () => {
  const column = new Column(['b', 'none has it', 'ä'], Uint32Array.of(3, 0, 1, 3));
  assert.deepEqual(column.byValue(), [['b', [2]], ['ä', [0, 3]]]);
  assert.deepEqual(column.values(), ['ä', undefined, 'b', 'ä']);
});

test('a round is what its text says', () => {
  const nodes = cluster();
  assert.equal(nodes.show(nodes.discover(racks, { label: 'rack' })), 'tier 1 rack | a7 | rack=a7 | m1 m2\n');
  assert.deepEqual(nodes.log, [['info', '3 nodes after nothing']]);
});

test('rounds carry state', () => {
  const nodes = cluster();
  const [first, second] = [nodes.round(racks, { label: 'rack' }), nodes.round(racks, { label: 'rack' })];
  assert.match(nodes.show(first), /a7/);
  assert.deepEqual([nodes.show(second), decode(nodes.state)], ['unchanged\n', 'again']);
  assert.deepEqual(nodes.log, [['info', '3 nodes after seen']]);
});

test('a column that was not asked for is empty', () => {
  const curious = {
    ...racks.definition,
    discover(_, { nodes }) {
      assert.deepEqual([nodes.label('other').values(), nodes.annotation('note').values()], [[undefined], [undefined]]);
      return new Topology();
    },
  };
  new Cluster().node('m1', { rack: 'a', other: 'b' }, { note: 'c' }).discover(curious, { label: 'rack' });
});

test('every mistake of a configuration is reported at once', () => {
  const refused = (config) => {
    const { kind, message } = failure(() => cluster().discover(racks, config));
    assert.equal(kind, 'config');
    return message;
  };
  assert.equal(
    refused({ label: 7, tier: true, more: 1 }),
    'more: is not known; known are label, tier; label: expected string, got 7; tier: expected integer, got true',
  );
  assert.equal(refused('{}'), 'label: expected string, got nothing');
  assert.equal(refused('[]'), 'expected object, got array');
  assert.equal(refused('null'), 'expected object, got null');
  assert.match(refused('{"label"'), /this is no JSON/);
});

test('the schema follows from the fields', () => {
  const schema = JSON.parse(racks.describe().configSchema);
  assert.deepEqual(schema.properties, { label: { type: 'string' }, tier: { type: 'integer' } });
  assert.deepEqual([schema.required, schema.additionalProperties], [['label'], false]);
  assert.equal(listed.describe().configSchema, '{"type":"object"}');
});

test('fields and their schema say the same', () => {
  const plain = { fields: { name: 'string', count: ['integer'], size: ['integer', 7], share: ['number', 0.5] } };
  assert.deepEqual(sdk.read(plain, '{"name": "a"}'), { name: 'a', count: undefined, size: 7, share: 0.5 });
  assert.deepEqual(JSON.parse(sdk.schemaOf(plain)).required, ['name']);
  const whole = sdk.read(plain, '{"name": "a", "count": 2.0, "size": 1e2, "share": 1}');
  assert.deepEqual(whole, { name: 'a', count: 2, size: 100, share: 1 });
  const wrong = () => sdk.read(plain, '{"name": "a", "count": 1.5, "size": null}');
  assert.throws(wrong, { message: 'count: expected integer, got 1.5; size: expected integer, got null' });
});

test('grants may be smaller than the wishes', () => {
  const { kind, message } = failure(() => cluster().permit({ labels: ['acme.example/*'] }).discover(racks, { label: 'rack' }));
  assert.equal(kind, 'denied');
  assert.equal(message, 'the plugin requests what is not granted: the plugin reads the node label rack, which is not permitted');
  cluster().permit({ labels: ['acme.example/*'] }).discover(racks, { label: 'acme.example/rack' });
  const denied = failure(() => cluster().permit({ endpoints: [] }).discover(listed, {}));
  assert.match(denied.message, /calls the endpoint list \(Reads which rack every node is in\), which is not permitted/);
});

/** What a discoverer makes of these answers, and what it asked. */
function served(replies, definition = listed) {
  const asked = [];
  const answer = ({ endpoint, method, pathAndQuery, headers }) => {
    asked.push([endpoint, method, pathAndQuery, headers]);
    const reply = replies.shift();
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const nodes = cluster().endpoint('list', answer, 'bearer');
  return [nodes.show(nodes.discover(definition, {})), asked];
}

test('pages are read to the last', () => {
  const first = { nodes: [{ name: 'm1', rack: 'a' }, { name: 'm2', rack: 'b' }, 7], next: '/v1/nodes?page=2' };
  const last = '{"next": null, "nodes": [{"name": "m3", "rack": "a"}, {"name": nul}, {"name": "m9"}]}';
  const [shown, asked] = served([{ body: JSON.stringify(first) }, { body: [last.slice(0, 40), encode(last.slice(40))] }]);
  assert.equal(
    shown,
    'tier 1 rack | a |  | m1 m3\ntier 1 rack | b |  | m2\n! unusable-record | source | 3 records are left out\n',
  );
  const accept = [['accept', 'application/json']];
  assert.deepEqual(asked, [['list', 'get', '/v1/nodes', accept], ['list', 'get', '/v1/nodes?page=2', accept]]);
});

test('every way to fail has its word', () => {
  const ends = (reply) => {
    const { kind, message, retryAfter } = failure(() => served([reply]));
    return [kind, message, retryAfter];
  };
  assert.deepEqual(ends({ status: 401 }), ['unauthorized', 'status 401', undefined]);
  assert.deepEqual(ends({ status: 302, headers: { Location: '/login' } }), ['upstream', 'status 302: redirects to "/login"', undefined]);
  assert.equal(ends({ status: 304 })[1], 'status 304 to a request that did not ask for it');
  assert.deepEqual(ends({ status: 503, headers: { 'retry-after': ' 7 ' } }), ['upstream', 'status 503', 7000]);
  for (const odd of ['9'.repeat(10), '9'.repeat(5000), '+7', '-1', '1.5', 'Fri, 31 Dec 1999 23:59:59 GMT']) {
    assert.deepEqual(ends({ status: 503, headers: { 'retry-after': odd } }), ['upstream', 'status 503', undefined]);
  }
  assert.deepEqual(ends(httpError('connect', 'refused')), ['upstream', 'no connection: refused', undefined]);
  assert.deepEqual(ends(httpError('denied', 'no')), ['denied', 'no', undefined]);
  assert.equal(ends({ body: '{"nodes": [{"na' })[1], 'the document ends in the middle');
  assert.equal(ends({ body: ['{"nodes": [', httpError('protocol', 'reset')] })[1], 'protocol error: reset');
  assert.equal(ends({ body: '{}' })[1], 'there is no list of nodes in the answer');
  assert.deepEqual(failure(() => served([{ status: 503, headers: { 'retry-after': '7' } }])).payload, {
    tag: 'upstream',
    val: { message: 'status 503', retryAfter: 7000n },
  });
});

test('what configure did not ask for is denied', () => {
  const asks = (...words) => {
    const discover = (_, { http }) => {
      assert.equal(http.credentialOf('list'), 'bearer');
      return http.send(...words);
    };
    const { kind, message } = failure(() => served([], { ...listed.definition, discover }));
    return [kind, message];
  };
  assert.deepEqual(asks('other'), ['denied', 'the endpoint "other" is not granted']);
  assert.deepEqual(asks('list', '/v1', { method: 'post' }), ['denied', 'POST is not granted on the endpoint list']);
  assert.deepEqual(asks('list', '/v10'), ['denied', 'the path "/v10" of the endpoint list is not granted, only /v1']);
  assert.deepEqual(asks('list', '/v1', { body: encode('x') }), ['denied', 'GET has no body']);
  assert.deepEqual(asks('list', '/v1/../v2'), ['denied', 'the path "/v1/../v2" is refused: it has a `.` or `..` segment']);
  const [kind, message] = asks('list', '/v1', { headers: { Authorization: 'Bearer x' } });
  assert.equal(kind, 'denied');
  assert.match(message, /^the header "Authorization" belongs to the host; a plugin may set accept, accept-charset, /);
});

test('what the host refuses of requirements is refused in its words', () => {
  const refused = (wanted, words) => {
    const definition = { ...listed.definition, configure: () => sdk.requirements(wanted), discover: () => new Topology() };
    const { kind, message } = failure(() => cluster().discover(definition, {}));
    assert.deepEqual([kind, message], ['internal', words]);
  };
  const limit = 'the plugin exceeded a limit: ';
  refused({ labels: Array(65).fill('a') }, `${limit}it has 65 required node labels and may have 64`);
  refused({ annotations: [''] }, 'the answer is not valid: it asks for the node label or annotation "": must not be empty');
  refused({ endpoints: Array(17).fill(sdk.endpoint('a', '')) }, `${limit}it has 17 endpoints and may have 16`);
  const long = sdk.endpoint('a', '', { paths: [`/${'x'.repeat(4096)}`] });
  refused({ endpoints: [long] }, `${limit}a text of an endpoint is 4097 bytes long, at most 4096 are read`);
});

test('an error of the bindings becomes a failure, and a read answer is given back', () => {
  let closed = 0;
  const response = {
    status: () => 200,
    headers: () => [['etag', '"1"'], ['etag', '"2"']],
    read: () => new Uint8Array(),
    [Symbol.dispose ?? Symbol.for('dispose')]: () => (closed += 1),
  };
  const http = new sdk.Http({ send: () => response });
  const answer = http.send('list');
  assert.equal(answer.headers.etag, '"1"');
  assert.deepEqual([answer.read().length, answer.read().length, closed], [0, 0, 1]);
  const refused = (error) => failure(() => new sdk.Http({ send: () => { throw error; } }).send('list'));
  const error = refused(Object.assign(new Error(), { payload: { tag: 'too-large', val: 'a body' } }));
  assert.deepEqual([error.kind, error.message, error.cause], ['upstream', 'too large: a body', 'too-large']);
  assert.equal(refused({ tag: 'denied', val: 'no' }).kind, 'denied');
});

test('both forms of a list are read in any pieces', () => {
  const read = (text, length) => {
    const elements = new Elements(pieces(text, length), 'data');
    return [[...elements], elements];
  };
  const text = ' [ {"a":[1,{"b":"]}"}]} , "x\\"ü", 12 ,-1.5e3, null] ';
  const envelope = '{"x":{"data":[7]},"y":"data","data" : [1,[2]],"z":1}';
  for (let length = 1; length < 60; length += 1) {
    assert.deepEqual(read(text, length)[0], [{ a: [1, { b: ']}' }] }, 'x"ü', 12, -1500, null]);
    const [values, elements] = read(envelope, length);
    assert.deepEqual([values, elements.found], [[1, [2]], true]);
    assert.deepEqual(elements.envelope, { x: { data: [7] }, y: 'data', data: null, z: 1 });
  }
  assert.deepEqual(read('[]', 9)[0], []);
});

test('an odd element costs that element', () => {
  const text = '[1, {"a": nope, "b": ["]", {}]}, oops, "a\tb", {"c": 3}]';
  for (let length = 1; length < 60; length += 1) {
    const values = [...new Elements(pieces(text, length), 'data')];
    assert.deepEqual([values.at(0), values.at(-1)], [1, { c: 3 }]);
    const odd = values.slice(1, -1);
    assert.ok(odd.every((value) => value instanceof Odd));
    assert.deepEqual(odd.map((value) => value.text), ['{"a": nope, "b": ["]", {}]}', 'oops', '"a\tb"']);
  }
});

test('what is no JSON text or number is odd', () => {
  const odd = ['NaN', '-Infinity', '1E400', '{"a":1e999}', '"\\ud800"', '{"a":["\\uDC00\\uD83D"]}', '{"\\udfff":1}', '12abc', '}x'];
  const text = `[${[...odd, '"\\ud83d\\ude42\\u0041"', '1e300', '7'].join(',')}]`;
  for (let length = 1; length < text.length + 2; length += 1) {
    const values = [...new Elements(pieces(text, length), 'data')];
    assert.deepEqual(values.slice(0, odd.length).map((value) => value.text), odd);
    assert.deepEqual(values.slice(odd.length), ['🙂A', 1e300, 7]);
    // As in the crate: what is missing between two elements is none of them.
    const without = [...new Elements(pieces('[{"a":1}{"a":2} [3]"x" 4]', length), 'data')];
    assert.deepEqual(without, [{ a: 1 }, { a: 2 }, [3], 'x', 4]);
  }
});

test('each piece is read once', () => {
  const element = JSON.stringify(Array.from({ length: 20_000 }, (_, at) => ({ name: `m${at}"\\`, x: [at] })));
  let copied = 0;
  const set = Uint8Array.prototype.set;
  Uint8Array.prototype.set = function counted(from, ...more) {
    copied += from.length;
    return set.call(this, from, ...more);
  };
  try {
    assert.deepEqual([...new Elements(pieces(`[${element}]`, 1024), 'data')], [JSON.parse(element)]);
  } finally {
    Uint8Array.prototype.set = set;
  }
  assert.ok(copied < 4 * element.length, `${copied} of ${element.length}`);
});

test('a broken document is no list', () => {
  for (const [text, words] of [
    ['[1,2', /ends in the middle/],
    ['[{"a":1', /ends in the middle/],
    ['', /ends in the middle/],
    ['{"data":[1]', /ends in the middle/],
    ['["ab', /ends in the middle/],
    ['<html>', /neither a JSON list nor an object/],
    ['[] []', /something follows/],
    ['{"data" 1}', /is no JSON/],
    [Uint8Array.of(0x5b, 0x22, 0xff, 0x22, 0x5d), /no UTF-8/],
  ]) {
    for (const length of [1, 3, 100]) {
      assert.match(failure(() => [...new Elements(pieces(text, length), 'data')]).message, words);
    }
  }
  const large = pieces(new Uint8Array(6 << 20).fill(0x61, 2).fill(0x5b, 0, 1).fill(0x22, 1, 2), 1 << 20);
  assert.match(failure(() => [...new Elements(large, 'data')]).message, /larger than 4 MiB/);
});

const topology = (tier, ...groups) => {
  const answer = new Topology();
  answer.level(tier);
  for (const { id, ...more } of groups) answer.group(0, id, more);
  return answer.answer();
};

test('what is no row is never row 0', () => {
  const answer = new Topology();
  const level = answer.level(1);
  for (const wrong of [undefined, null, -1, 0.5, 2 ** 32, '1', NaN, 1n]) {
    for (const act of [
      () => answer.group(level, 'a7', { rows: [0, wrong] }),
      () => answer.group(level, 'a7', { groups: [wrong] }),
      () => answer.group(wrong, 'a7', { rows: [0] }),
      () => answer.diagnose('odd', '', { rows: [wrong] }),
    ]) assert.throws(act, { name: 'TypeError', message: /(a7|odd): .* is no integer from 0 to 4294967295; leave out/ });
  }
  assert.throws(() => answer.diagnose('odd', '', { group: -1 }), /group of odd: -1 is no integer/);
  assert.deepEqual([answer.topology.groups, answer.topology.diagnostics], [[], []]);
  assert.equal(answer.group(level, 'a7', { rows: [2 ** 32 - 1] }), 0);
});

test('what the host refuses is refused in its words', () => {
  const refused = (answer, wanted, state = new Uint8Array()) => {
    const nodes = new Cluster().node('n0').node('n1').node('n2');
    nodes.state = state;
    assert.equal(nodes.judge(answer), wanted);
  };
  refused(topology(1, { id: 'a', rows: [0] }), undefined);
  refused(topology(99, { id: 'a', rows: [0] }), 'the topology is not valid: group "a": tier 99 is not between 1 and 16');
  refused(
    topology(1, { id: 'a', rows: [0] }, { id: 'a', rows: [] }),
    'the topology is not valid: group "a": the id is used by an earlier group of this answer; group "a": the group has no members',
  );
  refused(topology(1, { id: 'a', rows: [0, 9] }), 'the answer is not valid: group 0 has node row 9 and there are 3 nodes');
  refused(topology(1, { id: 'a', groups: [4] }), 'the answer is not valid: group 0 has group 4 and there are 1 groups');
  refused(topology(1, { id: 'a', rows: [1, 1] }), 'the topology is not valid: group "a": row 1 is a member twice');
  refused(unchanged(encode('')), 'the answer is not valid: it answers `unchanged`, but has no state of an earlier answer');
  refused(unchanged(encode('')), undefined, encode('x'));
  refused(
    topology(1, { id: 'x'.repeat(5000), rows: [0] }),
    'the plugin exceeded a limit: a group id is 5000 bytes long, at most 4096 are read',
  );
  refused(
    topology(1, { id: 'ä"\n'.repeat(40), rows: [0], labels: { 'a b': 'c' } }),
    `the topology is not valid: group "${'ä\\"\\n'.repeat(26)}ä\\""…: label key "a b": must consist of letters, digits, '-', '_' and '.', ` +
      'and begin and end with a letter or digit',
  );
});

test('a refused answer is a failure of the round', () => {
  const { kind, message } = failure(() => cluster().discover(racks, { label: 'rack', tier: 17 }));
  assert.deepEqual([kind, message], ['internal', 'the topology is not valid: group "a7": tier 17 is not between 1 and 16']);
});

test('a native round has what a component has', () => {
  const { http, log, ...bare } = listed.definition;
  const nodes = cluster().endpoint('list', () => ({ body: '{"nodes": []}' }));
  assert.throws(() => nodes.discover(bare, {}), { name: 'TypeError', message: /has no `http`; give it the module/ });
  nodes.discover({ ...bare, http }, {});
  const ends = (more) => {
    const { kind, message } = failure(() => cluster().discover({ ...racks.definition, ...more }, { label: 'rack' }));
    return [kind, message];
  };
  const fail = () => {
    throw new Failure('config', 'no such label');
  };
  const problem = () => {
    throw new sdk.Problems(['label', 'no such label']);
  };
  assert.deepEqual(ends({ configure: fail }), ['config', 'no such label']);
  assert.deepEqual(ends({ discover: problem }), ['config', 'label: no such label']);
  const { payload } = failure(() => plugin({ ...racks.definition, discover: problem }).discover('{"label": "x"}', {}, { time: 0n }));
  assert.deepEqual(payload, { tag: 'config', val: 'label: no such label' });
  const configure = () => plugin({ ...racks.definition, configure: fail }).configure('{"label": "x"}');
  assert.throws(configure, ({ payload }) => assert.deepEqual(payload, [{ path: '', message: 'no such label' }]) === undefined);
  const shout = (_, { log: say }) => say('warning', 'fire');
  const words = { name: 'TypeError', message: 'the log has no level warning; use one of debug, info, warn, error' };
  assert.throws(() => cluster().discover({ ...racks.definition, discover: shout }, { label: 'rack' }), words);
  const quiet = cluster();
  quiet.discover({ ...racks.definition, log: undefined }, { label: 'rack' });
  assert.deepEqual(quiet.log, []);
});

test('an exception is in the log before it ends the call', () => {
  const lines = [];
  const definition = { configure: () => undefined.absent, discover: () => undefined.absent };
  const log = { write: (level, message) => lines.push([level, message]) };
  assert.throws(() => plugin({ ...definition, log }).configure('{}'), TypeError);
  assert.equal(lines[0][0], 'error');
  assert.match(lines[0][1], /^TypeError: .*, .*sdk\.test\.js:[0-9]+:[0-9]+/);
  // Where the world has no log, the answer says it.
  assert.throws(() => plugin(definition).configure('{}'), ({ payload }) => payload[0].message.startsWith('TypeError: '));
  const round = { time: 7n, state: new Uint8Array() };
  const { payload } = failure(() => plugin(definition).discover('{}', {}, round));
  assert.equal(payload.tag, 'internal');
  assert.throws(() => racks.configure('{"label": 7}'), ({ payload: [{ path }] }) => path === 'label');
});
