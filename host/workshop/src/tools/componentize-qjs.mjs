// QuickJS. It has no TextEncoder, no promise that is waited for (`sync`), and nothing of WASI.
import { componentize } from 'componentize-qjs';

const text = join(dirname(output), 'interface.wit');
writeFileSync(text, interfaces);
try {
  const made = await componentize({ witPath: text, world, jsSource: code, stubWasi: true, sync: true });
  writeFileSync(output, made.component ?? made);
} finally {
  rmSync(text, { force: true });
}
