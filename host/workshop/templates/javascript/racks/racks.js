// All nodes with the same value of one label are close together.
import { Problems, Topology, on, plugin, requirements } from '@topoloom/sdk';
import * as log from '@topoloom/sdk/log';

export const discoverer = plugin({
  name: 'racks', version: '0.1.0', vendor: 'Acme', summary: 'One group per rack label',
  fields: { label: 'string' },
  log,

  configure({ label }) {
    if (label === '') throw new Problems(['label', 'must be the key of a node label, such as example.com/rack']);
    return requirements({ labels: [label], triggers: [on('columns')] });
  },

  discover({ label }, { nodes }) {
    const topology = new Topology();
    const racks = topology.level(1, { name: label });
    for (const [rack, rows] of nodes.label(label).byValue()) {
      // A label may be there and have no value: such a node has no rack.
      if (rack !== '') topology.group(racks, rack, { rows, labels: { [label]: rack } });
    }
    return topology;
  },
});
