/** A build that was damaged in the artifact store: the reason names it, and a deployment of the same folder repairs it. */
import { globSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { flip } from '../conformance/store/killed-store.ts';
import { folderOf } from '../support/folder.ts';
import { sharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const start = sharedStack(test);

test('a damaged build is named by its digest, and the same folder deployed again repairs it', async (t) => {
  t.timeout(300_000);
  const stack = await start();
  const app = await folderOf(t, {
    'app/hello.ts': "export const hello = () => 'hi';\n",
    'app/tool_manifest.json': JSON.stringify({ resources: { hello: { functions: [{ name: 'hello', module: 'hello.ts' }] } } }),
  });
  const builds = (): string[] => globSync('scheduler/blobs/build/*/*', { cwd: stack.dataDir });
  const others = builds();
  const endpoint = (await stack.deploy(join(app, 'app'))).get('hello') ?? '';
  const [file = ''] = builds().filter((each) => !others.includes(each));
  const path = join(stack.dataDir, file);
  const digest = file.split('/').at(-1) ?? '';
  const bytes = await readFile(path);
  await writeFile(path, flip(bytes, 4 * bytes.length));

  const job = await stack.run(endpoint, {});
  const shown = await until('the reason names the build', async () => {
    const text = await stack.tool('endpoints', 'show', 'hello', '--json');
    return text.includes(digest.slice(0, 12)) && text.includes('is damaged') ? text : null;
  });
  t.true(shown.includes(`build ${digest} is damaged`), shown);
  t.true((await stack.log()).includes(`build ${digest} is damaged`));
  await stack.deploy(join(app, 'app'));
  t.true((await readFile(path)).equals(bytes));
  t.like(await stack.ended(endpoint, job, 120_000), { status: 'COMPLETED', output: 'hi' });
});
