/** A deployment that is cut off at each of its steps leaves the old one or the new one, whole; and nothing that the next one stumbles over. */
import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { LIST_ENDPOINTS } from '../../client/graphql/gen/operations.ts';
import { connectGateway } from '../../client/gateway-client.ts';
import { build } from '../../compiler/build/build.ts';
import { deployApplication } from '../../cli/deploy/deploy.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { FaultProxy, steps, type Step } from './fakes/fault-proxy.ts';
import { run, type Run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const quiet = createTerminal({ out: { write: () => true }, err: { write: () => true }, colours: false });

let stack: Stack;
let proxy: FaultProxy;
test.before(async () => {
  stack = await Stack.start();
  proxy = await FaultProxy.start(() => stack.url);
});
test.after.always(async () => {
  proxy.close();
  await stack.close();
});

interface Project {
  readonly folder: string;
  /** Its two endpoints. */
  readonly names: readonly [string, string];
  write(version: string): Promise<void>;
}

/** Two endpoints that tell their version, and bytes that do not shrink. */
async function project(t: ExecutionContext, name: string): Promise<Project> {
  const folder = await folderOf(t);
  const functions = ['one', 'two'].map((each) => `${name}_${each}`);
  const resources = Object.fromEntries(functions.map((fn) => [fn, { functions: [{ name: fn, module: 'work.mjs' }], workersMax: 1 }]));
  await writeFile(join(folder, 'tool_manifest.json'), JSON.stringify({ resources }));
  return {
    folder,
    names: functions as [string, string],
    async write(version) {
      await writeFile(join(folder, 'work.mjs'), functions.map((fn) => `export const ${fn} = () => '${version}';\n`).join(''));
      await writeFile(join(folder, 'bytes.bin'), randomBytes(600_000));
    },
  };
}

/** In this process: a start of the tool is dear. */
async function deploy(folder: string, url: string): Promise<string> {
  const options = {
    lookUp: () => undefined,
    exclude: [],
    bundleBasePackages: false,
    keepStaging: false,
    refresh: false,
    python: undefined,
  };
  const { application, artifact } = await build(folder, { ...options, cacheDir: join(folder, '.cache') }, quiet);
  await deployApplication(connectGateway(url, stack.apiKey), { application, artifact, environment: 'default' }, quiet);
  return artifact.digest;
}

function tool(folder: string) {
  const env = { SERVICE_API_KEY: stack.apiKey, CAPSTAN_URL: proxy.url, CAPSTAN_DATA_DIR: stack.dataDir };
  return run([bin, 'deploy', folder, '--no-wait'], { cwd: folder, env });
}

/** What both endpoints answer, which must be one version of one build. */
async function whole(t: ExecutionContext, { names }: Project): Promise<string> {
  const client = connectGateway(stack.url, stack.apiKey);
  const { endpoints } = await client.query(LIST_ENDPOINTS, { environment: 'default' });
  const own = endpoints.filter(({ name }) => names.includes(name));
  t.is(own.length, 2);
  t.is(new Set(own.map(({ build }) => build?.digest)).size, 1, 'both endpoints have one build');
  const answers = await Promise.all(own.map(async ({ id }) => (await stack.ended(id, await stack.run(id, {}))).output));
  t.is(new Set(answers).size, 1, JSON.stringify(answers));
  return String(answers[0]);
}

const withProcesses = canFindProcesses ? test.serial : test.serial.skip;

test.serial('the tool killed at each step: the old deployment stands until the new one is registered; the next try succeeds', async (t) => {
  const shop = await project(t, 'killed');
  await shop.write('0');
  await deploy(shop.folder, stack.url);
  let version = '0';
  for (const [at, step] of (['building', ...steps] as const).entries()) {
    await shop.write(`${at + 1}`);
    // Ctrl+C reaches the tool where its work on this host is done, kill -9 everywhere.
    const signal = step === 'half uploaded' ? 'SIGINT' : 'SIGKILL';
    const held = Promise.withResolvers<void>();
    const running = tool(shop.folder);
    if (step === 'building') await running.hear(/=> building/);
    else {
      proxy.at(step, async () => {
        running.child.kill(signal);
        await running.ended;
        held.resolve();
      });
      await held.promise;
    }
    running.child.kill('SIGKILL');
    t.is(await running.ended, step === 'building' ? 'SIGKILL' : signal);
    if (step === 'registered') version = `${at + 1}`;
    t.is(await whole(t, shop), version, `after a kill at ${step}`);
  }
  await shop.write('last');
  await deploy(shop.folder, proxy.url);
  t.is(await whole(t, shop), 'last');
  t.deepEqual((await readdir(join(shop.folder, '.tool'))).filter((name) => !name.startsWith('lock')).sort(), [
    'artifact.tar.gz',
    'tool_manifest.json',
  ]);
});

withProcesses('a gateway or a scheduler that dies at any step: the deployment is carried on and succeeds', async (t) => {
  const shop = await project(t, 'carried');
  await shop.write('0');
  await deploy(shop.folder, stack.url);
  const deaths: readonly (readonly ['gateway' | 'scheduler', Step])[] = [
    ['scheduler', 'half uploaded'],
    ['gateway', 'registering'],
    ['scheduler', 'registered'],
  ];
  for (const [at, [part, step]] of deaths.entries()) {
    await shop.write(`${at + 1}`);
    proxy.at(step, async () => {
      stack.signal(part, 'SIGKILL');
      await Promise.resolve();
    });
    await deploy(shop.folder, proxy.url);
    t.is(await whole(t, shop), `${at + 1}`, `${part} died at ${step}`);
  }
});

test.serial('two deployments at once: one after the other, never a mix', async (t) => {
  const [left, right] = [await project(t, 'both'), await project(t, 'both')];
  for (let round = 0; round < 2; round += 1) {
    await Promise.all([left.write(`left ${round}`), right.write(`right ${round}`)]);
    await Promise.all([deploy(left.folder, stack.url), deploy(right.folder, stack.url)]);
    t.regex(await whole(t, left), new RegExp(`^(left|right) ${round}$`));
  }
  // Of one folder, the second waits for the first.
  await left.write('same');
  const started = Promise.withResolvers<Run>();
  proxy.at('asked', async () => {
    const second = tool(left.folder);
    await second.hear(/=> waiting for process \d+, which is building /);
    started.resolve(second);
  });
  const first = tool(left.folder);
  const second = await started.promise;
  t.deepEqual([await first.ended, await second.ended], [0, 0], first.stderr() + second.stderr());
  t.is(await whole(t, left), 'same');
});
