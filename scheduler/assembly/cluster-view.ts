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
import type { Cipher } from '../secrets/cipher.ts';

export interface ClusterParts {
  readonly config: SchedulerConfig;
  /** The engine's owner. */
  readonly id: string;
  readonly engine: Engine;
  readonly cipher: Cipher;
  readonly clock: Clock;
  readonly log: Logger;
}

export function openCluster({ config, id, engine, cipher, clock, log }: ClusterParts): ClusterView {
  const own: OwnFacts = {
    id,
    cell: config.cell,
    address: `${config.host}:${config.port}`,
    hostName: hostname(),
    version: pkg.version,
    masterKeys: () => cipher.keyIds,
  };
  return config.store === ''
    ? soleScheduler(own, () => engine.term)
    : new Presence({ url: config.store, own, log, wall: () => clock.now().wall });
}
