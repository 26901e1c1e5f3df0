/** The scaling tick alone: the core in this process, with a fleet and endpoints of the same size. */
import { FleetWorld } from '../../test/scheduler/core/fleet-world.ts';
import { queueInput } from '../../test/support/endpoint-input.ts';
import { inventoryOf } from './agents.ts';

export interface TickFigures {
  /** Every endpoint has its workers, and they are idle. */
  readonly settledMs: number;
  /** Every endpoint wants one worker more than the fleet can take, after a change. */
  readonly fullMs: number;
  /** The same, without a change. */
  readonly blockedMs: number;
}

/** Median durations of one tick, ms. */
export function measureTick(nodes: number, endpoints: number, perEndpoint: number): TickFigures {
  const world = new FleetWorld({ workerQuota: 1_000_000, heartbeatMs: 3_600_000, silenceMs: 7_200_000 });
  for (let i = 0; i < nodes; i++) world.node(`host-${String(i).padStart(4, '0')}`, [], inventoryOf('host'));
  const inputs = Array.from({ length: endpoints }, (_, i) => queueInput(`e${i}`, { workersMin: perEndpoint, workersMax: perEndpoint }));
  world.deploy(...inputs);
  for (const node of world.image.nodes.keys()) world.readyAll(node);
  const settledMs = ticks(world, () => undefined);
  world.deploy(
    ...Array.from({ length: endpoints }, (_, i) => queueInput(`g${i}`, { workersMin: 1, workersMax: 1, gpuIds: 'H200', gpuCount: 1 })),
  );
  const blockedMs = ticks(world, () => undefined);
  const fullMs = ticks(world, () => world.image.capacityVersion++);
  return { settledMs, fullMs, blockedMs };
}

function ticks(world: FleetWorld, before: () => void): number {
  const times: number[] = [];
  for (let i = 0; i < 9; i++) {
    world.mono += 1_000;
    before();
    const begun = performance.now();
    world.event({ kind: 'tick' });
    times.push(performance.now() - begun);
  }
  return times.sort((a, b) => a - b)[4] ?? 0;
}
