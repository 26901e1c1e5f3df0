/** Containers as an operator makes them stronger: by gVisor, and by a user namespace. */
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { ContainerRules } from '../../agent/runtimes/container/create-request.ts';
import { containerRuntime } from '../conformance/runtime/container-under-test.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { lacking, noEngine, startEngine } from '../support/container/private-engine.ts';
import { folderOf } from '../support/folder.ts';

const MEBIBYTE = 1024 * 1024;
const IMAGES = ['capstan/base-python', 'capstan/base-node'];
const RULES: ContainerRules = { gpus: 'environment', pids: 512, tmpBytes: 64 * MEBIBYTE, shmBytes: 64 * MEBIBYTE };

const PYTHON = `
import os, socket
def look(path):
    with open(path) as file: text = file.read()
    return {'text': text, 'secret': os.environ.get('SECRET'), 'build': os.access('/capstan/build', os.W_OK), 'tmp': os.access('/tmp', os.W_OK),
            'address': socket.gethostbyname(socket.gethostname())}
`;
const NODE = `
import { lookup } from 'node:dns/promises';
import { accessSync, constants, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
const writable = (path) => { try { accessSync(path, constants.W_OK); return true; } catch { return false; } };
export const look = async ({ path }) => ({ address: (await lookup(hostname(), 4)).address, text: readFileSync(path, 'utf8'), secret: process.env.SECRET, build: writable('/capstan/build'), tmp: writable('/tmp') });
`;

interface Seen {
  readonly address: string;
  readonly text: string;
}

/** Runs a function of each language, which reads a file of its container; returns what they read. */
async function lookAt(t: ExecutionContext, path: string, start: (folder: string) => TestWorker): Promise<string[]> {
  const texts: string[] = [];
  for (const files of [{ 'main.py': PYTHON }, { 'main.mjs': NODE }]) {
    const worker = start(await folderOf(t, files));
    await worker.hear('loaded');
    const { value } = await worker.call('1', { path });
    t.like(value, { secret: 'a-secret-value', build: false, tmp: true });
    t.regex((value as Seen).address, /^\d+\.\d+\.\d+\.\d+$/, 'its host name resolves');
    texts.push((value as Seen).text);
    worker.worker.end(false);
    await worker.hear('exited');
  }
  return texts;
}

const runsc = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'runsc'))
  .find((path) => existsSync(path));
const noGvisor = noEngine ?? lacking(['runsc']);

if (noGvisor === undefined) {
  test.serial('workers run in gVisor: the kernel that they see is not the host’s', async (t) => {
    // No network of its own: older versions cannot make one on newer kernels.
    const runtimeArgs = ['--host-uds=open', '--network=none'];
    const engine = await startEngine(IMAGES, { runtimes: { strong: { path: runsc, runtimeArgs } } });
    t.teardown(() => engine.stop());
    const runtime = await containerRuntime(t, engine.socket, { rules: { ...RULES, runtime: 'strong' } });
    t.is((await runtime.probe())?.level, 'gvisor');
    const kernel = readFileSync('/proc/version', 'utf8');
    const seen = await lookAt(t, '/proc/version', (folder) =>
      startWorkerOf(runtime, folder, 'look', { env: { SECRET: 'a-secret-value' } }),
    );
    for (const text of seen) t.not(text, kernel);
  });
} else {
  test.skip(`gVisor: skipped, an engine with it ${noGvisor}`, (t) => t.pass());
}

/** A user with a range of subordinate ids, as the engine needs one; root cannot be it. */
const namesIn = (path: string): string[] =>
  (existsSync(path) ? readFileSync(path, 'utf8') : '').split('\n').map((line) => line.split(':')[0] ?? '');
const [remapped] = namesIn('/etc/subuid').filter((name) => !['', 'root'].includes(name) && namesIn('/etc/subgid').includes(name));
const noNamespace = noEngine ?? (remapped === undefined ? 'needs a user with a range in /etc/subuid and /etc/subgid' : undefined);

if (noNamespace === undefined) {
  test.serial('workers run in a user namespace of the engine: their root is nobody on the host', async (t) => {
    const engine = await startEngine(IMAGES, { 'userns-remap': remapped });
    t.teardown(() => engine.stop());
    const runtime = await containerRuntime(t, engine.socket, { rules: RULES });
    const seen = await lookAt(t, '/proc/self/uid_map', (folder) =>
      startWorkerOf(runtime, folder, 'look', { env: { SECRET: 'a-secret-value' } }),
    );
    for (const text of seen) t.notRegex(text, /^\s+0\s+0\s/);
  });
} else {
  test.skip(`user namespace: skipped, an engine with it ${noNamespace}`, (t) => t.pass());
}
