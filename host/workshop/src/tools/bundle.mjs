// The source with all that it imports as one module, and the interface as one text: an engine reads neither folders nor packages.
import { build } from 'esbuild';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const [source, wit, world, output] = process.argv.slice(-4).map((word, at) => (at === 2 ? word : resolve(word)));

const bundled = await build({
  entryPoints: [source],
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  conditions: ['topoloom'],
  target: 'es2022',
  // What the host provides is no file.
  external: ['topoloom:*'],
  legalComments: 'none',
  logLevel: 'warning',
});
const code = bundled.outputFiles[0].text;

// The file with the line `package` comes first, and no other may repeat it.
const files = readdirSync(wit).filter((name) => name.endsWith('.wit')).sort();
const texts = files.map((name) => readFileSync(join(wit, name), 'utf8'));
const names = texts.map((text) => /^package [^;]+;/m.exec(text)?.[0]).filter(Boolean);
const interfaces = [names[0], ...texts.map((text) => text.replace(/^package [^;]+;/m, ''))].join('\n');

