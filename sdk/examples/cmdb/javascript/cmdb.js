// Racks and rooms out of a CMDB that answers in pages: the same discoverer as ../rust, which says what the service answers.
import { Elements, Failure, Problems, Topology, endpoint, on, plugin, requirements, size } from '@topoloom/sdk';
import * as http from '@topoloom/sdk/http';
import * as log from '@topoloom/sdk/log';

// The longest name of a rack or a room: two of them have to fit into an identity of 512 bytes, each byte as `%2F`.
const NAME = 80;

export const discoverer = plugin({
  name: 'cmdb', version: '0.1.0', vendor: 'Acme', summary: 'Racks and rooms of a CMDB',
  fields: { pageSize: ['integer', 500] },
  http, log,

  configure({ pageSize }) {
    if (pageSize < 1 || pageSize > 1000) throw new Problems(['pageSize', `expected 1 to 1000 devices per page, got ${pageSize}`]);
    const why = 'Reads the rack and the room of every device';
    const cmdb = endpoint('cmdb', why, { paths: ['/devices'], credentials: ['bearer', 'basic'] });
    return requirements({ endpoints: [cmdb], triggers: [on('timer'), on('names')] });
  },

  discover({ pageSize }, { nodes, http }) {
    const { places, moved, every, odd } = read(pageSize, http);
    // A list with many records that cannot be read is of another form, and no list with few racks.
    if (odd * 20 > every) throw new Failure('upstream', `${odd} of ${every} devices cannot be read`);
    const topology = new Topology();
    const [rackLevel, roomLevel] = [topology.level(1, { name: 'rack' }), topology.level(2, { name: 'room' })];
    const [rooms, placed, twice, names] = [new Map(), new Set(), [], [...places.keys()].sort()];
    for (const [at, row] of nodes.find(names).entries()) {
      if (row === undefined) continue;
      const [room, rack] = places.get(names[at]);
      placed.add(row);
      if (moved.has(names[at])) twice.push(row);
      if (!rooms.has(room)) rooms.set(room, new Map());
      if (!rooms.get(room).has(rack)) rooms.get(room).set(rack, []);
      rooms.get(room).get(rack).push(row);
    }
    for (const room of [...rooms.keys()].sort()) {
      const racks = rooms.get(room);
      const groups = [...racks.keys()].sort().map((rack) => {
        const about = { rows: racks.get(rack), description: `rack ${rack} in room ${room}` };
        return topology.group(rackLevel, `${encoded(room)}/${encoded(rack)}`, about);
      });
      topology.group(roomLevel, encoded(room), { groups });
    }
    const absent = [...Array(nodes.rows).keys()].filter((row) => !placed.has(row));
    if (absent.length > 0) topology.diagnose('not-in-cmdb', 'no device has the name of this node', { rows: absent });
    const said = 'it is listed twice, with different places; the first one counts';
    if (twice.length > 0) topology.diagnose('listed-twice', said, { rows: twice });
    if (odd > 0) topology.diagnose('unusable-device', `${odd} of ${every} devices have no name, rack and room`);
    return topology;
  },
});

// All pages: the place of each device, those that are listed with two places, how many there are, how many are odd.
function read(pageSize, http) {
  const [places, moved, cursors] = [new Map(), new Set(), new Set()];
  let [every, odd, path] = [0, 0, `/devices?limit=${pageSize}`];
  for (;;) {
    const items = new Elements(http.send('cmdb', path, { headers: { accept: 'application/json' } }).success(), 'items');
    for (const device of items) {
      every += 1;
      const [name, place] = placeOf(device);
      if (place === undefined) odd += 1;
      else if (!places.has(name)) places.set(name, place);
      else if (places.get(name).join('\n') !== place.join('\n')) moved.add(name);
    }
    if (!items.found) throw new Failure('upstream', 'there is no list of devices in the answer');
    const cursor = items.envelope.next ?? '';
    if (cursor === '') return { places, moved, every, odd };
    if (typeof cursor !== 'string') throw new Failure('upstream', 'the page has no usable `next`');
    // Otherwise the limit of requests would end the round, after a thousand of them.
    if (cursors.has(cursor)) throw new Failure('upstream', 'the same page follows twice');
    cursors.add(cursor);
    path = `/devices?limit=${pageSize}&cursor=${encoded(cursor)}`;
  }
}

// The name of a device and its room and rack; nothing where one of them is missing or too long.
function placeOf(device) {
  const { name, room, rack } = device ?? {};
  const fits = (part) => typeof part === 'string' && part !== '' && size(part) <= NAME;
  return typeof name === 'string' && name !== '' && fits(room) && fits(rack) ? [name, [room, rack]] : [];
}

// A text as part of a query, or of an identity: without the characters that separate its parts.
function encoded(text) {
  const more = (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replace(/[!'()*]/g, more);
}
