// Natively, without WebAssembly and without a cluster: `node --test`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cluster } from '@topoloom/sdk/testing';

import { discoverer } from './cmdb.js';

const FIRST = { items: [{ name: 'm1', rack: 'a7', room: 'r1' }, { name: 'm2', rack: 'b1', room: 'r1' }], next: 'p 2' };
const SECOND = { items: [{ name: 'm3', rack: 'a7', room: 'r1' }, { name: 'x', rack: 'a7', room: 'r1' }], next: null };

function round(answer) {
  const cluster = new Cluster().endpoint('cmdb', ({ pathAndQuery }) => answer(pathAndQuery), 'bearer');
  for (const name of ['m1', 'm2', 'm3', 'm4']) cluster.node(name);
  return cluster.show(cluster.discover(discoverer, { pageSize: 2 }));
}

test('pages become racks and rooms', () => {
  const pages = { '/devices?limit=2': FIRST, '/devices?limit=2&cursor=p%202': SECOND };
  const shown = round((path) => ({ status: 200, body: JSON.stringify(pages[path]) }));
  assert.equal(shown, [
    'tier 1 rack | r1/a7 |  | m1 m3 | said rack a7 in room r1',
    'tier 1 rack | r1/b1 |  | m2 | said rack b1 in room r1',
    'tier 2 room | r1 |  | [r1/a7 r1/b1]',
    '! not-in-cmdb | m4 | no device has the name of this node\n',
  ].join('\n'));
});

test('half of the pages is no answer', () => {
  const half = JSON.stringify(SECOND).slice(0, 90);
  for (const second of [{ status: 500 }, { status: 200, body: '<html>log in</html>' }, { status: 200, body: half }]) {
    const answer = (path) => (path.includes('cursor') ? second : { status: 200, body: JSON.stringify(FIRST) });
    assert.throws(() => round(answer), { kind: 'upstream' });
  }
});

test('devices that are no nodes are of no interest, however many are listed twice', () => {
  const items = Array.from({ length: 10_001 }, (_, at) => ({ name: `x${at}`, rack: 'a7', room: 'r1' })).concat(FIRST.items);
  const again = items.map((device) => ({ ...device, rack: 'b1' }));
  const shown = round(() => ({ status: 200, body: JSON.stringify({ items: [...items, ...again] }) }));
  assert.deepEqual(shown.split('\n').filter((line) => line.includes('listed-twice')), [
    '! listed-twice | m1 | it is listed twice, with different places; the first one counts',
  ]);
});

test('what is no cursor is not the end', () => {
  for (const next of [0, false, [], {}, 7]) {
    const answer = () => ({ status: 200, body: JSON.stringify({ ...FIRST, next }) });
    assert.throws(() => round(answer), { kind: 'upstream', message: 'the page has no usable `next`' });
  }
  for (const next of [null, '', undefined]) {
    assert.match(round(() => ({ status: 200, body: JSON.stringify({ ...FIRST, next }) })), /^tier 1 rack \| r1\/a7 \|  \| m1 /);
  }
});
