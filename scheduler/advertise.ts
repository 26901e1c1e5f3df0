/** Where gateways, agents and other schedulers reach this one. */
import { hostname } from 'node:os';

import type { SchedulerConfig } from './config.ts';

const WILDCARDS: ReadonlySet<string> = new Set(['0.0.0.0', '::', '[::]']);

/** @param bound host and port that the server listens on. */
export function advertisedAddress({ advertise, host }: Pick<SchedulerConfig, 'advertise' | 'host'>, bound: string): string {
  if (advertise !== undefined) return advertise;
  return WILDCARDS.has(host) ? `${hostname()}:${bound.slice(bound.lastIndexOf(':') + 1)}` : bound;
}
