// Racks as a service lists them: {"nodes": [{"name": "m1", "rack": "a7"}, …]}, or the list alone.
import { Elements, Failure, Topology, endpoint, on, plugin, requirements, size } from '@topoloom/sdk';
import * as http from '@topoloom/sdk/http';
import * as log from '@topoloom/sdk/log';

const isText = (value, most) => typeof value === 'string' && value !== '' && size(value) <= most;

export const discoverer = plugin({
  name: 'listed', version: '0.1.0', vendor: 'Acme', summary: 'One group per rack of a list',
  // There is nothing to configure: the operator sets the address of the service in the entry.
  fields: {}, http, log,

  configure() {
    // Below the URL of the operator; ask for no more than you need. Of the kinds of credential the best comes first.
    const list = endpoint('list', 'Reads which rack every node is in', { paths: ['/v1'], credentials: ['bearer', 'basic'] });
    return requirements({ endpoints: [list], triggers: [on('timer'), on('names')] });
  },

  discover(config, { nodes, http }) {
    const elements = new Elements(http.send('list', '/v1/nodes').success(), 'nodes');
    let [racks, all, odd] = [new Map(), 0, 0];
    // An error here means that the list is not whole: what was read before is not used.
    for (const node of elements) {
      all += 1;
      if (!isText(node?.name, 253) || !isText(node.rack, 512)) odd += 1;
      else racks.set(node.rack, (racks.get(node.rack) ?? new Set()).add(node.name));
    }
    if (!elements.found || odd * 20 > all) throw new Failure('upstream', `no list, or ${odd} of ${all} records are unusable`);
    const topology = new Topology();
    const level = topology.level(1, { name: 'rack' });
    for (const [rack, names] of racks) {
      const rows = nodes.find(names).filter((row) => row !== undefined);
      if (rows.length > 0) topology.group(level, rack, { rows });
    }
    if (odd > 0) topology.diagnose('unusable-record', `${odd} of ${all} records are left out`);
    return topology;
  },
});
