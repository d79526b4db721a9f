// The discoverer as an ordinary program, no WebAssembly and no cluster: `npm test`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cluster } from '@topoloom/sdk/testing';

import { discoverer } from './racks.js';

test('nodes of one rack are one group', () => {
  const cluster = new Cluster().node('m1', { rack: 'a7' }).node('m2', { rack: 'a7' }).node('m3');
  const answer = cluster.discover(discoverer, { label: 'rack' });
  assert.equal(cluster.show(answer), 'tier 1 rack | a7 | rack=a7 | m1 m2\n');
});
