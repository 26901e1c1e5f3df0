/** A world of the core with one ready worker, and what it tells the scheduler. */
import type { FromWorker } from '../../agent/core/events.ts';
import { WorkerSpec, type AgentEvent, type Dispatch, type ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { release, World } from './core-world.ts';
import { dispatchOf } from './fake-scheduler.ts';

export const KEY = 'j1#1';

export function ready(values: Partial<ReleaseSpec> = {}): World {
  const world = new World();
  world.feed({ kind: 'welcome' });
  const workers = [WorkerSpec.fromPartial({ workerId: 'w1', releaseId: 'r1' })];
  world.feed({ kind: 'desired', desired: { epoch: 1, workers, releases: [release(values)] } });
  world.settle();
  return world;
}

export function dispatch(world: World, values: Partial<Dispatch> = {}): void {
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j1', executionTimeoutMs: 5_000, ...values }) });
}

export function enter(world: World, key = KEY): void {
  world.feed({ kind: 'handler-entered', key });
}

export function end(world: World, key = KEY): void {
  world.feed({ kind: 'handler-ended', key, result: { kind: 'returned', output: Buffer.from('42'), ms: 7 } });
}

export function told(world: World): string[] {
  return world.reports.map(describe);
}

export function describe(event: NonNullable<AgentEvent['event']>): string {
  switch (event.$case) {
    case 'refused':
      return `refused ${event.value.reason.replace('REFUSAL_REASON_', '')}`;
    case 'ended':
      return `ended ${event.value.outcome.replace('ATTEMPT_OUTCOME_', '')}`;
    case 'chunk':
      return `chunk ${event.value.index}`;
    default:
      return event.$case;
  }
}

export const FORGED: readonly (readonly [name: string, forge: (world: World, from: FromWorker) => void])[] = [
  ['an entry', (world, from) => world.feed({ kind: 'handler-entered', ...from })],
  ['a chunk', (world, from) => world.feed({ kind: 'chunk', ...from, data: Buffer.from('1') })],
  ['progress', (world, from) => world.feed({ kind: 'progress', ...from, data: Buffer.from('1') })],
  [
    'an end',
    (world, from) => world.feed({ kind: 'handler-ended', ...from, result: { kind: 'returned', output: Buffer.from('"forged"'), ms: 1 } }),
  ],
];
