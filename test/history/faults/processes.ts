/** Faults of processes: kill -9, and SIGSTOP for a while. */
import type { Random } from '../../simulator/random.ts';
import { killIfThere } from '../stack/stack.ts';
import type { Fault, FaultSource } from './fault.ts';

/** Crosses the limits of silence and grace sometimes. */
const PAUSE_MS = [300, 14_000] as const;
const HOST_SHARE = 0.35;

export const kill: FaultSource = (random, stack) => {
  const host = random.chance(HOST_SHARE) ? anyOf(random, stack.hosts()) : undefined;
  if (host !== undefined)
    return { target: `worker host ${host.pid}`, lastsMs: 0, begin: () => void killIfThere(host.pid), heal: () => undefined };
  const victim = random.pick(stack.victims());
  return {
    target: victim.name,
    lastsMs: 0,
    mayEnd: [victim.name],
    begin: () => victim.kill(),
    heal: async () => void (await victim.ready),
  };
};

export const pause: FaultSource = (random, stack) => {
  const host = random.chance(HOST_SHARE) ? anyOf(random, stack.hosts()) : undefined;
  const victim = random.pick(stack.victims());
  const pids = host === undefined ? victim.pids : [host.pid];
  if (pids.length === 0) return undefined;
  const [least, most] = PAUSE_MS;
  // Long pauses are rarer than short ones.
  const lastsMs = Math.round(least * (most / least) ** random.next());
  return {
    target: `${host === undefined ? victim.name : `worker host ${host.pid}`} for ${lastsMs} ms`,
    lastsMs,
    begin: () => pids.forEach((pid) => killIfThere(pid, 'SIGSTOP')),
    heal: () => pids.forEach((pid) => killIfThere(pid, 'SIGCONT')),
  } satisfies Fault;
};

function anyOf<T>(random: Random, items: readonly T[]): T | undefined {
  return items.length === 0 ? undefined : random.pick(items);
}
