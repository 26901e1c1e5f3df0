/** `capstan deploy --preview` on a container engine: what it starts, and that nothing of it is left. */
import { existsSync } from 'node:fs';
import { realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { noEngine, startEngine, type PrivateEngine } from '../support/container/private-engine.ts';
import { until } from '../support/until.ts';
import { run, type Run } from './fakes/run.ts';
import { ownFolder } from '../support/own-folder.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const IMAGE = 'preview-test/python:1';

const ONE = `
from capstan import Endpoint

@Endpoint(name="echo", cpu="cpu3c-1-2")
def echo(text: str):
    return text
`;

const SOURCE = `
from capstan import Endpoint

@Endpoint(name="lengths", cpu="cpu3c-1-2")
def measure(text: str):
    return {"length": len(text)}

api = Endpoint(name="front", cpu="cpu3c-1-2")

@api.get("/twice")
def twice():
    return measure("four")

@Endpoint(name="vision", gpu="ADA_24")
def see(text: str):
    return text
`;

interface World {
  preview(socket: string, ...args: string[]): Run;
}

async function world(t: ExecutionContext, source = ONE): Promise<World> {
  const folder = await realpath(await ownFolder('capstan-app'));
  // Previews keep their folders here: what is left of them can be seen.
  const temporary = await realpath(await ownFolder('capstan-tmp'));
  await writeFile(join(folder, 'worker.py'), source);
  t.teardown(async () => {
    await rm(folder, { recursive: true, force: true });
    await rm(temporary, { recursive: true, force: true });
  });
  return {
    preview(socket, ...args) {
      const running = run([tool, 'deploy', folder, '--preview', ...args], {
        cwd: folder,
        env: {
          TMPDIR: temporary,
          CAPSTAN_CACHE_DIR: join(temporary, 'cache'),
          CAPSTAN_CONTAINER_SOCKET: socket,
          // Of the user's own service: a preview must not touch it.
          CAPSTAN_HTTP_PORT: '1',
          CAPSTAN_DATA_DIR: '/nowhere',
        },
      });
      t.teardown(() => running.child.kill('SIGKILL'));
      return running;
    },
  };
}

test('without an engine it says what to do', async (t) => {
  const { preview } = await world(t);
  const running = preview('none');
  t.is(await running.ended, 69);
  t.regex(running.stderr(), /✗ no container engine .*\nhint: Start Docker or Podman/);
});

test('--image is for previews, and a preview has a stack of its own', async (t) => {
  const { preview } = await world(t);
  for (const [flag, value] of [
    ['--url', 'http://127.0.0.1:1'],
    ['--data-dir', '/nowhere'],
  ] as const) {
    const running = preview('none', flag, value);
    t.is(await running.ended, 2);
    t.true(running.stderr().includes(`${flag}: not allowed with --preview, which starts its own stack`));
  }
  const running = run([tool, 'deploy', '.', '--image', 'a']);
  t.is(await running.ended, 2);
  t.regex(running.stderr(), /--image: requires --preview/);
});

if (noEngine === undefined) {
  let engine: PrivateEngine;
  test.before(async () => {
    engine = await startEngine([IMAGE]);
  });
  test.after.always(() => engine.stop());

  const left = async (): Promise<{ containers: string; networks: string }> => ({
    containers: await engine.docker('ps', '-aq'),
    networks: await engine.docker('network', 'ls', '-q', '--filter', 'label=capstan.preview'),
  });
  const NOTHING = { containers: '', networks: '' };

  test.serial('one container an endpoint, in a network of their own, until Ctrl+C', async (t) => {
    const { preview } = await world(t, SOURCE);
    const running = preview(engine.socket, '--image', IMAGE);
    await running.hear(/Press Ctrl\+C to stop it/);
    const said = running.stderr();
    t.regex(said, /! vision requires a GPU, which this host does not have: skipped/);
    t.regex(said, /Load-balanced endpoints\n {2}front [^]*GET \/twice → twice\nQueue-based endpoints\n {2}lengths {2}http/);
    t.regex(said, /✓ 2 containers are running\nnext: curl -s http:/);
    const network = await engine.docker('network', 'ls', '-q', '--filter', 'label=capstan.preview', '--no-trunc');
    t.regex(network, /^[0-9a-f]{64}$/);
    const inNetwork = await engine.docker('ps', '--filter', `network=${network}`, '--format', '{{.Image}}');
    t.is(inNetwork, `${IMAGE}\n${IMAGE}`);

    const [, key = ''] = /API key: (\S+)/.exec(said) ?? [];
    const [, base = '', id = ''] = /lengths {2}(http:\S+)\/v2\/(\w+)/.exec(said) ?? [];
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const job = await fetch(`${base}/v2/${id}/runsync`, { method: 'POST', headers, body: '{"input":{"text":"abc"}}' });
    t.like(await job.json(), { status: 'COMPLETED', output: { length: 3 } });
    const [, front = ''] = /front {2}http:\S+\/lb\/(\w+)/.exec(said) ?? [];
    // From one container to the other, through the gateway.
    t.deepEqual(await (await fetch(`${base}/lb/${front}/twice`, { headers })).json(), { length: 4 });

    running.child.kill('SIGINT');
    t.is(await running.ended, 0, running.stderr());
    t.deepEqual(await left(), NOTHING);
    const [, folder = tmpdir()] = /data in (\S+)\/data/.exec(said) ?? [];
    t.false(existsSync(folder));
  });

  test.serial('an endpoint without an image is refused with what an image needs, before anything is made', async (t) => {
    const { preview } = await world(t);
    const running = preview(engine.socket);
    t.is(await running.ended, 78);
    t.regex(
      running.stderr(),
      /✗ echo has no image, and the engine does not have capstan\/base-python\nhint: Set an image with --image; it must have python3/,
    );
    t.deepEqual(await left(), NOTHING);
  });

  test.serial('what a killed preview left goes with the next; a start that fails leaves nothing', async (t) => {
    const { preview } = await world(t);
    const killed = preview(engine.socket, '--image', IMAGE);
    await killed.hear(/its container is running/);
    killed.child.kill('SIGKILL');
    await killed.ended;
    t.not((await left()).networks, '');
    // Its parts end by themselves; until then its agent starts nothing anew.
    await until('its containers ended', async () => (await engine.docker('ps', '-q')) === '');

    const failing = preview(engine.socket, '--image', IMAGE, '--env', 'not a name');
    t.not(await failing.ended, 0);
    t.regex(failing.stderr(), /! removed capstan-preview-\w+, left by a preview that was killed/);
    t.regex(failing.stderr(), /✗ .*environment/);
    t.deepEqual(await left(), NOTHING);
  });
} else test.skip(`previews on a container engine: ${noEngine}`, (t) => t.pass());
