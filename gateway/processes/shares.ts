/** What each of several gateway processes on one port may use: limits of memory and of load at the scheduler are divided among them. */
import { availableParallelism } from 'node:os';

import { CapstanError } from '../../lib/errors.ts';
import type { GatewayConfig } from '../config.ts';

/** Processes, unless a setting says otherwise. */
const MAX_BY_DEFAULT = 8;
const CORES_PER_PROCESS = 2;
const MAX_PORT = 65_535;
/** Look-ups per second that a process has at least: a start or a burst of new keys may reach any one of them. */
const MIN_LOOKUPS = 8;
/** Bodies of the largest permitted size that the memory of one process holds at least: an account may use half of what is free. */
const MIN_BODIES = 2;

type CountSettings = Pick<GatewayConfig, 'processes' | 'invokePort' | 'invokeAddress'>;

/**
 * Returns the number of processes: as configured, else one for every two cores, at most 8. Without the setting it is one where agents
 * dial a fixed port, because each process has a port of its own for agents.
 * @throws CapstanError CONFIG when there are too few ports above the configured ones.
 */
export function processCount({ processes, invokePort, invokeAddress }: CountSettings): number {
  const isFixed = invokePort > 0 || invokeAddress !== undefined;
  const byDefault = isFixed ? 1 : Math.min(MAX_BY_DEFAULT, Math.max(1, Math.floor(availableParallelism() / CORES_PER_PROCESS)));
  const count = processes === 0 ? byDefault : processes;
  const last = Math.max(invokePort, invokeAddress === undefined ? 0 : splitAddress(invokeAddress).port) + count - 1;
  if (isFixed && last > MAX_PORT)
    throw new CapstanError('CONFIG', `CAPSTAN_GATEWAY_PROCESSES: ${count} processes need the ports for agents up to ${last}`, {
      field: 'CAPSTAN_GATEWAY_PROCESSES',
    });
  return count;
}

/** Returns the settings of the process `index` of `count`, from 0. Ports for agents are the configured ones and those that follow. */
export function shareOf(config: GatewayConfig, index: number, count: number): GatewayConfig {
  const share = (whole: number, least = 1): number => Math.max(Math.ceil(whole / count), Math.min(whole, least));
  const largest = Math.max(config.maxRunBytes, config.maxRunsyncBytes, config.lbMaxBodyBytes);
  return {
    ...config,
    maxInFlight: share(config.maxInFlight),
    maxBodyMemoryBytes: share(config.maxBodyMemoryBytes, MIN_BODIES * largest),
    lbMaxHeld: share(config.lbMaxHeld),
    lbMaxWebSockets: share(config.lbMaxWebSockets),
    lookupsPerSecond: share(config.lookupsPerSecond, MIN_LOOKUPS),
    invokePort: config.invokePort === 0 ? 0 : config.invokePort + index,
    invokeAddress: config.invokeAddress === undefined ? undefined : nextAddress(config.invokeAddress, index),
  };
}

/** Returns the port for processes that start when none is left: the one that was picked for 0. A URL leaves out its protocol's own port. */
export function portToKeep({ port }: Pick<GatewayConfig, 'port'>, url: string): number {
  return port === 0 ? Number(new URL(url).port) : port;
}

function nextAddress(address: string, index: number): string {
  const { host, port } = splitAddress(address);
  return `${host}:${port + index}`;
}

function splitAddress(address: string): { readonly host: string; readonly port: number } {
  const at = address.lastIndexOf(':');
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
}
