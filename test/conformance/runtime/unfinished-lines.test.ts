/** Output without a line end appears soon, survives a kill, and of a progress bar only the latest state remains. */
import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import { processRuntime, threadRuntime } from './hosts.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';

const PYTHON = `
import os, signal, sys, threading, time

done = threading.Event()

def dots():
    print(".", end="", flush=True)
    done.wait()
    return "ended"
def unflushed():
    print("no flush", end="")
    done.wait()
def raw():
    sys.stdout.buffer.write(b"bytes")
    sys.stdout.flush()
    done.wait()
def dies():
    print("whole")
    print("half", end="", flush=True)
    sys.stderr.write("error half")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
def bar():
    for step in range(101):
        print(f"\\r{step}%", end="", flush=True)
        time.sleep(0.04)
    print()
    print("after")
def ends():
    print("last", end="")
def words():
    print("a", "b", 1)
    print("c", end=" ")
    print("d")
`;

const TYPESCRIPT = `
const never = () => new Promise(() => undefined);
export async function dots() { process.stdout.write('.'); await never(); }
export async function unflushed() { process.stdout.write('no flush'); await never(); }
export async function raw() { process.stdout.write(Buffer.from('bytes')); await never(); }
export function dies() {
  console.log('whole');
  process.stdout.write('half');
  process.stderr.write('error half');
  process.kill(process.pid, 'SIGKILL');
}
export async function bar() {
  for (let step = 0; step <= 100; step += 1) {
    process.stdout.write(\`\\r\${step}%\`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  console.log();
  console.log('after');
}
export function ends() { process.stdout.write('last'); }
export function words() {
  console.log('a', 'b', 1);
  process.stdout.write('c ');
  console.log('d');
}
`;

async function workerOf(t: ExecutionContext, make: () => Runtime, file: string, fn: string): Promise<TestWorker> {
  const source = file === 'main.py' ? PYTHON : TYPESCRIPT;
  const folder = await folderOf(t, { [file]: source, ...(file === 'main.js' ? { 'package.json': '{"type":"module"}' } : {}) });
  const runtime = make();
  t.teardown(() => runtime.close());
  const worker = startWorkerOf(runtime, folder, fn);
  await worker.hear('loaded');
  return worker;
}

const linesOf = ({ said }: TestWorker, stream = 'stdout'): string[] =>
  said.items.flatMap((item) => (item.say === 'log' && item.stream === stream ? [item.text] : []));

for (const [name, file, make] of [
  ['python', 'main.py', () => processRuntime()],
  ['node', 'main.js', () => processRuntime()],
  ['thread', 'main.js', () => threadRuntime()],
] as const) {
  for (const [fn, text] of [
    ['dots', '.'],
    ['unflushed', 'no flush'],
    ['raw', 'bytes'],
  ] as const) {
    test(`${name}: the unfinished line of ${fn} appears while the job runs, as its own`, async (t) => {
      const worker = await workerOf(t, make, file, fn);
      worker.run('1', {});
      const line = await worker.hear('log', (said) => said.text === text);
      t.like(line, { stream: 'stdout', jobId: 'job-1' });
      t.false(worker.said.items.some(({ say }) => say === 'ended'));
    });
  }

  // The thread's messages pass through another one, which the kill ends, too.
  if (name !== 'thread') {
    test(`${name}: what was written before a kill is not lost`, async (t) => {
      const worker = await workerOf(t, make, file, 'dies');
      worker.run('1', {});
      await worker.hear('exited');
      t.deepEqual(linesOf(worker), ['whole', 'half']);
      t.deepEqual(linesOf(worker, 'stderr'), ['error half']);
    });
  }

  test(`${name}: a progress bar gives its latest states and its last one`, async (t) => {
    const worker = await workerOf(t, make, file, 'bar');
    await worker.call('1');
    const lines = linesOf(worker);
    t.deepEqual(lines.slice(-2), ['100%', 'after']);
    t.true(lines.length > 2 && lines.length < 20, lines.join(' '));
    t.true(lines.slice(0, -1).every((line) => /^\d+%$/.test(line)));
  });

  test(`${name}: a last line without an end precedes the end of its job, and whole lines stay whole`, async (t) => {
    const worker = await workerOf(t, make, file, 'ends');
    await worker.call('1');
    const says = worker.said.items.flatMap((item) => (item.say === 'log' ? [item.text] : item.say === 'ended' ? ['(end)'] : []));
    t.deepEqual(says, ['last', '(end)']);
    const words = await workerOf(t, make, file, 'words');
    await words.call('1');
    t.deepEqual(linesOf(words), ['a b 1', 'c d']);
  });
}
