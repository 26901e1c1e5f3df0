/**
 * Node searches folders outside of a build: `node_modules` of all folders above, and for `require` some of the user and of Node. What a
 * host has there is no package of a worker; at every level of isolation, for functions, servers and what these start.
 */
import { execFile } from 'node:child_process';
import { chmod, link, mkdir, realpath, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { stageBootstrap } from '../../agent/runtimes/bootstrap.ts';
import { withBase } from '../../agent/runtimes/node-options.ts';
import { ownModules } from '../../agent/runtimes/own-modules.ts';
import { folderOf } from '../support/folder.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';

const run = promisify(execFile);
const linux = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: not Linux');

const OF_BUILD = 'ofbuild';
const MODULES = ['above', 'ofhome', 'libraries', 'ofpath', OF_BUILD];
const FOUND = { required: [OF_BUILD], imported: [OF_BUILD] };
const TELLS = `import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
const NAMES = ${JSON.stringify(MODULES)};
const require = createRequire(import.meta.url);
export async function found() {
  const required = NAMES.filter((name) => { try { return require(name); } catch { return false; } });
  const imported = [];
  for (const name of NAMES) await import(name).then(() => imported.push(name), () => undefined);
  return { required, imported };
}
export async function everywhere() {
  const here = fileURLToPath(import.meta.url);
  return [await found(), JSON.parse(execFileSync('node', [here, 'print'], { encoding: 'utf8' }))];
}
if (process.argv[2] === 'print') process.stdout.write(JSON.stringify(await found()));
`;
const PROJECT = {
  'tells.mjs': TELLS,
  'package.json': '{"name":"project","private":true,"type":"module"}',
  'functions.ts': `import { everywhere } from './tells.mjs';\nexport async function one() { return everywhere(); }
export async function two() { return everywhere(); }
export async function three() { return everywhere(); }
`,
  'server.mjs': `import { createServer } from 'node:http';
import { everywhere } from './tells.mjs';
createServer(async (request, response) => response.end(JSON.stringify(request.url === '/' ? await everywhere() : {}))).listen(Number(process.env.PORT), process.env.CAPSTAN_HOST);
`,
  'tool_manifest.json': JSON.stringify({
    version: '1',
    resources: {
      thread: { runtime: 'thread', functions: [{ name: 'one', module: 'functions' }] },
      process: { runtime: 'process', functions: [{ name: 'two', module: 'functions' }] },
      options: { functions: [{ name: 'three', module: 'functions' }], env: { NODE_OPTIONS: '--max-old-space-size=512' } },
      server: { is_load_balanced: true, command: ['node', 'server.mjs'] },
    },
  }),
  ...Object.fromEntries([OF_BUILD].map((name) => [`node_modules/${name}/index.js`, 'module.exports = true;'])),
};

/** Packages in all folders of a host that Node searches. */
async function hostIn(folder: string): Promise<Readonly<Record<string, string>>> {
  const places = { above: 'node_modules', ofhome: 'home/.node_modules', libraries: 'home/.node_libraries', ofpath: 'path' };
  for (const [name, place] of Object.entries(places)) {
    await mkdir(join(folder, place, name), { recursive: true });
    await writeFile(join(folder, place, name, 'index.js'), 'module.exports = true;');
  }
  return { HOME: join(folder, 'home'), NODE_PATH: join(folder, 'path') };
}

for (const level of ['none', 'user', 'sandbox'])
  linux(`level ${level}: workers have the npm packages of their build, and none of their host`, async (t) => {
    t.timeout(180_000);
    // Where the level is not available, its absence is what other tests name.
    let folder = '';
    const stack = await Stack.start({ CAPSTAN_ISOLATION: level }, async (own) => {
      folder = own;
      // Workers of other users pass it.
      await chmod(own, 0o755);
      return { ...(await hostIn(own)), CAPSTAN_WORKER_DIR: join(own, 'workers') };
    }).catch((error: unknown) => error as Error);
    if (stack instanceof Error) {
      t.regex(String(stack.cause), /the level .* does not work on this host/);
      t.log(`skipped: ${stack.message}`);
      return;
    }
    try {
      const source = join(folder, 'source/project');
      for (const [name, text] of Object.entries(PROJECT)) {
        await mkdir(dirname(join(source, name)), { recursive: true });
        await writeFile(join(source, name), text);
      }
      const ids = await stack.deploy(source);
      for (const name of ['thread', 'process', 'options']) {
        const job = await stack.call(`/v2/${ids.get(name) ?? ''}/runsync`, { method: 'POST', body: '{"input":{}}' });
        const { output, error } = (await job.json()) as { output?: unknown; error?: string };
        t.deepEqual(output, [FOUND, FOUND], error ?? name);
      }
      const response = await stack.call(`/lb/${ids.get('server') ?? ''}/`);
      t.deepEqual(await response.json(), [FOUND, FOUND]);
    } finally {
      await stack.close();
    }
  });

linux('the folders of the user and of Node are searched without it, and not with it; those that a release names are', async (t) => {
  const folder = await realpath(await folderOf(t));
  const { HOME = '', NODE_PATH = '' } = await hostIn(folder);
  // Node searches a folder beside that of its program.
  const node = join(folder, 'usr/bin/node');
  await mkdir(dirname(node), { recursive: true });
  await link(process.execPath, node);
  const ofNode = join(folder, 'usr/lib/node/ofnode');
  await mkdir(ofNode, { recursive: true });
  await writeFile(join(ofNode, 'index.js'), 'module.exports = true;');
  const names = JSON.stringify([...MODULES, 'ofnode']);
  const script = join(folder, 'builds/one/script.cjs');
  await mkdir(dirname(script), { recursive: true });
  await writeFile(
    script,
    `process.stdout.write(${names}.filter((name) => { try { return require(name); } catch { return false; } }).join());`,
  );
  const found = async (env: Readonly<Record<string, string>>): Promise<string> =>
    (await run(node, [script], { env: { HOME, ...env } })).stdout;
  const own = ownModules(await stageBootstrap(join(folder, 'boot strap "1"'), []), [join(folder, 'builds')]);
  t.is(await found({ NODE_PATH }), 'above,ofhome,libraries,ofpath,ofnode');
  t.is(await found(withBase(own, { NODE_PATH, NODE_OPTIONS: '--no-deprecation' })), 'ofpath');
  t.is(await found(ownModules(await stageBootstrap(join(folder, 'other'), []), [])), 'above', 'of a project under development');
});
