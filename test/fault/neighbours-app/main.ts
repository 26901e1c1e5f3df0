/** Jobs of which one ends the worker of all. */
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

interface Context {
  readonly attempt: number;
}

function leave(how: string): void {
  if (how === 'exits') process.exit(1);
  if (how === 'crashes') process.kill(process.pid, 'SIGSEGV');
  if (how === 'is killed') process.kill(process.pid, 'SIGKILL');
}

async function job(n: number, how: string, { attempt }: Context): Promise<readonly number[]> {
  await sleep(500);
  if (n === 0) leave(how);
  return [n, attempt];
}

export function inProcess(n: number, how: string, ctx: Context): Promise<readonly number[]> {
  return job(n, how, ctx);
}

export function inThread(n: number, how: string, ctx: Context): Promise<readonly number[]> {
  return job(n, how, ctx);
}

const begun = new Set<number>();

/** The request 0 ends the worker once three others are in it; in a later life of the worker they return. */
export async function webJs(n: number, how: string, marker = ''): Promise<number> {
  const isLater = existsSync(marker);
  if (marker !== '' && !isLater) begun.add(n);
  if (n === 0 && !isLater) while (begun.size < 4) await sleep(10);
  if (n === 0) {
    appendFileSync(marker, 'x');
    leave(how);
  }
  if (marker !== '' && !isLater) await sleep(60_000);
  return n;
}

export function webThread(n: number, how: string, marker = ''): Promise<number> {
  return webJs(n, how, marker);
}
