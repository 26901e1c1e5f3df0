/** What a stopped attempt started ends with it; what the module or a finished attempt started stays. In every runtime and level. */
import { randomUUID } from 'node:crypto';

import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import type { LoadSpec } from '../../../agent/runtimes/host-protocol.ts';
import { folderOf } from '../../support/folder.ts';
import { processesOf } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { answered, ask } from './http-suite.ts';
import { startWorkerOf } from './worker-under-test.ts';

/** A child, one in a session of its own, and one whose parent is gone. Images may lack setsid. */
const LEAVES = 'S=$(command -v setsid); ($S sleep 302 &) ; $S sleep 303 & exec sleep 304';

const PYTHON = `
import asyncio, os, subprocess, time
subprocess.Popen(["sleep", "301"])
def start(stays):
    child = subprocess.Popen(["sh", "-c", "${LEAVES}"], start_new_session=True)
    if not stays: child.wait()
def sleepers():
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file: command = file.read().split("\\0")
        except OSError: continue
        if command[0] == "sleep": found.add(command[1])
    return sorted(found)
def inside(stays):
    if stays: return sleepers()
    child = subprocess.Popen(["sh", "-c", "${LEAVES}"], start_new_session=True)
    while len(sleepers()) < 4: time.sleep(0.05)
    print("ready", flush=True)
    child.wait()
async def start_async(stays):
    child = await asyncio.create_subprocess_shell("${LEAVES}")
    if not stays: await child.wait()
def leave():
    return subprocess.Popen(["sh", "-c", "${LEAVES}"], start_new_session=True)
def waits():
    leave().wait()
async def waits_async():
    leave()
    await asyncio.sleep(600)
def streams():
    leave()
    while True: yield "x" * 65536
def breaks():
    leave().wait()
    raise Exception("\\1" * 16384)
def stays():
    leave()
class Lingers:
    """Ends 2 s after its answer."""
    chunks = iter(["x"])
    def __iter__(self): return self
    def __next__(self): return next(self.chunks)
    def close(self): time.sleep(2)
def lingers():
    leave()
    return Lingers()
`;

const JAVASCRIPT = `
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
spawn('sleep', ['301']);
const commandOf = (pid) => {
  try {
    return readFileSync('/proc/' + pid + '/cmdline', 'utf8').split('\\0');
  } catch {
    return [];
  }
};
const sleepers = () =>
  [...new Set(readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).map(commandOf).flatMap(([name, seconds]) => (name === 'sleep' ? [seconds] : [])))].sort();
export async function inside(stays, ctx) {
  if (stays) return sleepers();
  void run(true);
  while (sleepers().length < 4) await new Promise((resolve) => setTimeout(resolve, 50));
  console.log('ready');
  await new Promise((_resolve, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
}
async function run(stays, signal) {
  const child = spawn('sh', ['-c', '${LEAVES}'], { detached: true });
  if (stays) return;
  await new Promise((resolve, reject) => {
    child.once('exit', resolve);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}
export const start = (stays, ctx) => run(stays, ctx.signal);
export const deaf = (stays, ctx) => run(stays);
export const waits = () => run(false);
export const waits_async = (context) => run(false, context.signal);
export async function* streams() {
  await run(true);
  for (;;) yield 'x'.repeat(65536);
}
export const breaks = (context) => run(false, context.signal).catch(() => { throw new Error('\\x01'.repeat(16384)); });
export const stays = () => run(true);
`;

export const leavesProcesses = { javascript: { 'main.js': JAVASCRIPT }, python: { 'main.py': PYTHON } } as const;

export interface LeavingFunction {
  readonly build: Readonly<Record<string, string>>;
  readonly fn: string;
}

/** The kinds of sleeping processes of the workers with a mark, in order. */
function sleepersOf(mark: string): string[] {
  return processesOf(`CAPSTAN_TEST_MARK=${mark}`)
    .map(({ command }) => /^sleep (\d+)/.exec(command)?.[1] ?? '')
    .filter((seconds) => seconds !== '')
    .sort();
}

/** The daemon of the module, and what an attempt or a request starts. */
const ALL = ['301', '302', '303', '304'];

export function attemptProcessesConformance(
  name: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  { build, fn }: LeavingFunction,
): void {
  test(`${name}: the processes of a stopped attempt end with it`, async (t) => {
    const mark = randomUUID();
    const made = await makeRuntime(t);
    t.teardown(() => made.close());
    const env = { CAPSTAN_TEST_MARK: mark };
    const worker = startWorkerOf(made, await folderOf(t, build), fn, { env, workFolder: await folderOf(t) });
    const sleeping = (): string[] => sleepersOf(mark);
    const all = ALL;
    await worker.hear('loaded');
    await until('the daemon of the module runs', () => sleeping().includes('301'));
    worker.run('1', { stays: false });
    await until('the attempt has started its processes', () => sleeping().length === all.length);
    const daemon = processesOf(`CAPSTAN_TEST_MARK=${mark}`).find(({ command }) => command.startsWith('sleep 301'))?.pid;
    worker.worker.cancel('1');
    const over = await worker.said.next(({ say }) => say === 'ended' || say === 'reloading');
    // A module that is loaded again starts its daemon again.
    if (over.say === 'reloading') await worker.hear('loaded', undefined, worker.said.items.indexOf(over));
    t.deepEqual([...new Set(sleeping())], ['301']);
    t.true(
      processesOf(`CAPSTAN_TEST_MARK=${mark}`).some(({ pid }) => pid === daemon),
      'the daemon of the module goes on',
    );
    await worker.call('2', { stays: true });
    await until('the second attempt has started its processes', () => new Set(sleeping()).size === all.length);
    worker.run('3', { stays: false });
    await until('the third attempt has started its processes', () => sleeping().filter((seconds) => seconds === '304').length === 2);
    worker.worker.cancel('3');
    await worker.said.next((said) => (said.say === 'ended' && said.key === '3') || said.say === 'reloading', worker.said.items.length);
    t.deepEqual([...new Set(sleeping())], all, 'what a finished attempt started belongs to the worker');
    t.is(sleeping().filter((seconds) => seconds === '304').length, 1);
  });
}

const specOf = (fn: string): LoadSpec['httpFunctions'][number] => ({
  ...{ name: fn, module: 'main', callStyle: 'CALL_STYLE_UNSPECIFIED' },
  parameters: [],
});

/** The same for requests: those whose callers went away, or whose time is over. */
export function requestProcessesConformance(
  name: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  build: LeavingFunction['build'],
): void {
  test(`${name}: the processes of a stopped request end with it`, async (t) => {
    const mark = randomUUID();
    const made = await makeRuntime(t);
    t.teardown(() => made.close());
    const functions = ['waits', 'waits_async', 'streams', 'breaks', 'stays'].map(specOf);
    const env = { CAPSTAN_TEST_MARK: mark };
    const worker = startWorkerOf(made, await folderOf(t, build), '', { env, functions, servesHttp: true, workFolder: await folderOf(t) });
    await worker.hear('loaded');
    await until('the daemon of the module runs', () => sleepersOf(mark).includes('301'));
    for (const fn of ['waits', 'waits_async', 'streams', 'breaks']) {
      const { call, heard } = ask(worker, fn, {}, false);
      await until(`${fn} has started its processes`, () => sleepersOf(mark).length === ALL.length);
      call.abort(false);
      await heard.next(({ on }) => on === 'ended' || on === 'failed');
      t.deepEqual(sleepersOf(mark), ['301'], fn);
    }
    t.is((await answered(ask(worker, 'stays'))).status, 200);
    await until('a request has started its processes', () => sleepersOf(mark).length === ALL.length);
    const { call, heard } = ask(worker, 'waits');
    await until('the next one, too', () => sleepersOf(mark).filter((seconds) => seconds === '304').length === 2);
    call.abort(false);
    await heard.next(({ on }) => on === 'ended' || on === 'failed');
    t.deepEqual(sleepersOf(mark), ALL, 'what an answered request started belongs to the worker');
    t.false(worker.said.items.some(({ say }) => say === 'exited'));
  });
}

/** The same as seen from inside, for workers whose processes the host does not see. */
export function attemptProcessesInside(
  name: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  build: LeavingFunction['build'],
): void {
  test(`${name}: the processes of a stopped attempt have ended when the next one begins`, async (t) => {
    const made = await makeRuntime(t);
    t.teardown(() => made.close());
    const worker = startWorkerOf(made, await folderOf(t, build), 'inside', { workFolder: await folderOf(t) });
    await worker.hear('loaded');
    worker.run('1', { stays: false });
    await worker.hear('log', ({ text }) => text.includes('ready'));
    worker.worker.cancel('1');
    await worker.ended('1');
    t.deepEqual((await worker.call('2', { stays: true })).value, ['301']);
  });
}

/** A function in Python may go on after its answer; the next request waits for its end, and may be stopped meanwhile. */
export function queuedRequestConformance(name: string, makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>): void {
  test(`${name}: a request that is stopped before it begins ends nothing of the one before it`, async (t) => {
    const mark = randomUUID();
    const made = await makeRuntime(t);
    t.teardown(() => made.close());
    const functions = ['lingers', 'waits'].map(specOf);
    const options = { env: { CAPSTAN_TEST_MARK: mark }, functions, servesHttp: true, workFolder: await folderOf(t) };
    const worker = startWorkerOf(made, await folderOf(t, leavesProcesses.python), '', options);
    await worker.hear('loaded');
    t.is((await answered(ask(worker, 'lingers'))).status, 200);
    await until('it has started its processes', () => sleepersOf(mark).length === ALL.length);
    const { call, heard } = ask(worker, 'waits');
    call.abort(false);
    await heard.next(({ on }) => on === 'ended' || on === 'failed');
    t.deepEqual(sleepersOf(mark), ALL, 'its own processes have ended, those of the one before have not');
  });
}
