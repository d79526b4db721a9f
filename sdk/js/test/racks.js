// The discoverers that the tests run: one over labels, one over a service with pages. As a vendor writes them: by the name of the package.
import { Elements, Failure, Topology, decode, encode, endpoint, on, plugin, requirements, unchanged } from '@topoloom/sdk';
import * as http from '@topoloom/sdk/http';
import * as log from '@topoloom/sdk/log';

export const racks = plugin({
  name: 'racks', version: '0.1.0', vendor: 'Acme', summary: 'One group per rack label',
  fields: { label: 'string', tier: ['integer', 1] },
  log,
  configure: ({ label }) => requirements({ labels: [label], triggers: [on('columns')] }),
  discover({ label, tier }, { nodes, state, log: write }) {
    const topology = new Topology({ state: encode('seen') });
    const level = topology.level(tier, { name: label });
    for (const [rack, rows] of nodes.label(label).byValue()) topology.group(level, rack, { rows, labels: { [label]: rack } });
    write('info', `${nodes.rows} nodes after ${decode(state) || 'nothing'}`);
    return decode(state) === 'seen' ? unchanged(encode('again')) : topology;
  },
});

export const listed = plugin({
  name: 'listed', version: '0.1.0', vendor: 'Acme', summary: 'One group per rack of a list',
  http,
  configure() {
    const list = endpoint('list', 'Reads which rack every node is in', { paths: ['/v1'], credentials: ['bearer'] });
    return requirements({ endpoints: [list], triggers: [on('timer', 1000)] });
  },
  discover(_, input) {
    const racks = new Map();
    let odd = 0;
    for (let page = '/v1/nodes'; page; ) {
      const response = input.http.send('list', page, { headers: { accept: 'application/json' } }).success();
      const elements = new Elements(response, 'nodes');
      for (const node of elements) {
        if (node?.rack === undefined) odd += 1;
        else racks.set(node.rack, [...(racks.get(node.rack) ?? []), node.name]);
      }
      if (!elements.found) throw new Failure('upstream', 'there is no list of nodes in the answer');
      page = elements.envelope.next;
    }
    const topology = new Topology();
    const level = topology.level(1, { name: 'rack' });
    for (const [rack, names] of racks) {
      topology.group(level, rack, { rows: input.nodes.find(names).filter((row) => row !== undefined) });
    }
    if (odd) topology.diagnose('unusable-record', `${odd} records are left out`);
    return topology;
  },
});
