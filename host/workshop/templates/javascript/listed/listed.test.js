// The discoverer as an ordinary program, no WebAssembly, no cluster and no service: `npm test`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cluster } from '@topoloom/sdk/testing';

import { discoverer } from './listed.js';

const WHOLE = '{"nodes": [{"name": "m1", "rack": "a7"}, {"name": "m2", "rack": "a7"}]}';

/** A round in which the service answers this. */
const shown = (body) => {
  const cluster = new Cluster().node('m1').node('m2').endpoint('list', () => ({ status: 200, body }), 'bearer');
  return cluster.show(cluster.discover(discoverer, {}));
};

test('names become racks', () => assert.equal(shown(WHOLE), 'tier 1 rack | a7 |  | m1 m2\n'));

test('half an answer is none', () => {
  for (const body of [WHOLE.slice(0, 50), '<html>log in</html>', '{"nodes": [{"name": "m1"}]}', '{}', '']) {
    assert.throws(() => shown(body), { name: 'Failure', kind: 'upstream' }, body);
  }
});
