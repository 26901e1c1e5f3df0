/** How this scheduler shows itself to the others, and sees them. */
import { hostname } from 'node:os';

import type { Logger } from 'pino';

import pkg from '../../package.json' with { type: 'json' };
import type { ClusterView, OwnFacts } from '../cluster/cluster.ts';
import { Presence } from '../cluster/presence.ts';
import { soleScheduler } from '../cluster/sole.ts';
import type { SchedulerConfig } from '../config.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { KeyHolder } from '../rotation/master-keys.ts';

export interface ClusterParts {
  readonly config: SchedulerConfig;
  /** The engine's owner. */
  readonly id: string;
  readonly engine: Engine;
  /** Ids of the master keys that this scheduler holds. */
  readonly masterKeys: () => readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

export function openCluster({ config, id, engine, masterKeys, clock, log }: ClusterParts): ClusterView {
  const own: OwnFacts = {
    id,
    cell: config.cell,
    address: `${config.host}:${config.port}`,
    hostName: hostname(),
    version: pkg.version,
    masterKeys,
  };
  return config.store === ''
    ? soleScheduler(own, () => engine.term)
    : new Presence({ url: config.store, own, log, wall: () => clock.now().wall });
}

/** The other schedulers of a cell, and the master keys that they hold; also those that were lately seen and are silent. */
export async function keyHolders(cluster: ClusterView, cell: string): Promise<readonly KeyHolder[]> {
  const { schedulers, answeredBy } = await cluster.list();
  return schedulers
    .filter((each) => each.cell === cell && each.id !== answeredBy)
    .map(({ hostName, address, masterKeyIds }) => ({ name: `${hostName} (${address})`, keys: masterKeyIds }));
}
