/** Jobs of which one ends the worker of all. */
import { setTimeout as sleep } from 'node:timers/promises';

interface Context {
  readonly attempt: number;
}

async function job(n: number, how: string, { attempt }: Context): Promise<readonly number[]> {
  await sleep(500);
  if (n === 0 && how === 'exits') process.exit(1);
  if (n === 0 && how === 'is killed') process.kill(process.pid, 'SIGKILL');
  return [n, attempt];
}

export function inProcess(n: number, how: string, ctx: Context): Promise<readonly number[]> {
  return job(n, how, ctx);
}

export function inThread(n: number, how: string, ctx: Context): Promise<readonly number[]> {
  return job(n, how, ctx);
}
