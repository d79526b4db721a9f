// Judges the answers, wishes and requests of a file (`alike.js FILE`, one JSON per line), and compares each verdict, and the text of each
// valid answer, with what is in the file. Without a file it is one of the files that `node --test` finds, and does nothing.
import { readFileSync } from 'node:fs';

import * as http from '@topoloom/sdk/http';
import { Failure, Topology, endpoint, on, pack, requirements } from '@topoloom/sdk';
import { Cluster } from '@topoloom/sdk/testing';

const members = (said) => {
  const [[tag, value]] = Object.entries(said);
  if (tag === 'names') return { tag, val: pack(value) };
  if (tag === 'selector') return { tag, val: { matchLabels: value.labels, matchExpressions: value.requirements } };
  return { tag, val: value };
};

const subject = (said) => {
  if (said === undefined || said === null) return { tag: 'source' };
  const [[tag, val]] = Object.entries(said);
  return { tag, val };
};

const answer = ({ unchanged = false, state = 0, additionsOnly = false, levels = [], groups = [], diagnostics = [] }) => {
  if (unchanged) return { outcome: { tag: 'unchanged' }, state: new Uint8Array(state) };
  const topology = {
    coverage: additionsOnly ? 'additions-only' : 'complete',
    levels: levels.map(({ tier, name, kind }) => ({ tier, tierName: name ?? undefined, kind: kind ?? undefined })),
    groups: groups.map(({ id, level, labels = [], members: said, name, description }) => ({
      id, level, labels, members: members(said), fixedName: name ?? undefined, description: description ?? undefined,
    })),
    diagnostics: diagnostics.map(({ code, detail, about }) => ({ code, detail, subject: subject(about) })),
  };
  return { outcome: { tag: 'topology', val: topology }, state: new Uint8Array(state) };
};

/** What a round says that asks for this, and sends one request. */
const ends = ({ labels, annotations, endpoints, triggers, paths, post, body, path, headers }) => {
  const definition = {
    http,
    configure: () => requirements({
      labels, annotations, triggers: Array(triggers).fill(on('timer')),
      endpoints: [
        endpoint('list', 'Reads the list', { paths, methods: ['get', 'post'] }),
        ...Array.from({ length: endpoints }, (_, at) => endpoint(`more${at}`, 'Reads more')),
      ],
    }),
    discover(_, { http: host }) {
      const sent = body ? Uint8Array.of(0x7b, 0x7d) : undefined;
      host.send('list', path, { method: post ? 'post' : 'get', headers: Object.fromEntries(headers), body: sent });
      return new Topology();
    },
  };
  try {
    new Cluster().endpoint('list', () => ({ status: 200 })).discover(definition, {});
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
  return null;
};

const file = process.argv[2];
if (file) {
  let count = 0;
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const { nodes = [], hadState, said, asked, verdict, shown = null } = JSON.parse(line);
    const cluster = nodes.reduce((all, name) => all.node(name), new Cluster());
    cluster.state = new Uint8Array(hadState ? 6 : 0);
    const found = asked ? ends(asked) : cluster.judge(answer(said)) ?? null;
    const text = found === null && !asked ? cluster.show(answer(said)) : null;
    if (found !== verdict || text !== shown) {
      console.error(`${JSON.stringify(asked ?? said)}\nhere:    ${found}\n${text}\nin Rust: ${verdict}\n${shown}`);
      process.exitCode = 1;
      break;
    }
    count += 1;
  }
  if (!process.exitCode) console.log(`${count} answers are judged alike`);
}
