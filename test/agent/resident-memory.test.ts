/** The memory of a worker is that of all its processes, whenever they came. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';

import test, { type ExecutionContext } from 'ava';

import { watchGroup } from '../../agent/runtimes/resident-memory.ts';

/** A shell in a group of its own with a child, and one more for each line it reads. */
function group(t: ExecutionContext): ChildProcess & { readonly pid: number } {
  const leader = spawn('sh', ['-c', 'sleep 1000 & while read line; do sleep 1000 & done'], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const { pid } = leader;
  if (pid === undefined) throw new Error('no shell');
  t.teardown(() => process.kill(-pid, 'SIGKILL'));
  return Object.assign(leader, { pid });
}

/** Resolves with the first sum that is more than `least` bytes. */
function above(t: ExecutionContext, leader: number, least: number): Promise<number> {
  return new Promise((resolve) => {
    const end = watchGroup(leader, (bytes) => {
      if (bytes <= least) return;
      end();
      resolve(bytes);
    });
    t.teardown(end);
  });
}

function bytesOf(pid: number): number {
  const pages = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(pages) * 1024;
}

test('children count, those that came later and those of a group that nobody watched before', async (t) => {
  const first = group(t);
  const second = group(t);
  // More than a child's worth of pages that the shell itself may still touch.
  const spare = 64 * 1024;
  const before = await above(t, first.pid, bytesOf(first.pid) + spare);
  t.true((await above(t, second.pid, bytesOf(second.pid) + spare)) > 0);
  first.stdin?.write('\n'.repeat(4));
  t.true((await above(t, first.pid, before + spare)) > before);
});
