// SpiderMonkey. The engine reads its source from a file below the folder in which it is started; the path to it is part of the
// component, so it is always the same.
import { componentize } from '@bytecodealliance/componentize-js';

const bundle = join(dirname(output), 'bundle.js');
writeFileSync(bundle, code);
try {
  const made = await componentize({
    sourcePath: bundle,
    witWorld: interfaces,
    worldName: world,
    disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'],
  });
  writeFileSync(output, made.component);
} finally {
  rmSync(bundle, { force: true });
}
