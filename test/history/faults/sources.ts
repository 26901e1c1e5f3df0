/** The faults that can happen here, and what the stack needs for them. What cannot is named with the reason. */
import { spawnSync } from 'node:child_process';

import type { Options } from '../options.ts';
import { plainSettings, type StackSettings } from '../stack/stack.ts';
import { clockFaults, findLibrary, FURTHEST_S } from './clock.ts';
import { cut } from './connections.ts';
import { disk, mountDisk, ON_OWN_DISK, unmountDisk } from './disk.ts';
import type { FaultKind, FaultSource } from './fault.ts';
import { hasOwnMounts } from './own-mounts.ts';
import { Network } from './partition.ts';
import { kill, pause } from './processes.ts';

export interface Prepared {
  readonly sources: ReadonlyMap<FaultKind, FaultSource>;
  readonly settings: StackSettings;
  /** The furthest that a clock is ahead of another moment of itself, ms. */
  readonly clockStepMs: number;
  close(): void;
}

/** Whether a kind needs mounts or network namespaces of its own. */
export function needsOwnMounts(kinds: readonly FaultKind[]): boolean {
  return (
    kinds.some((kind) => kind === 'disk' || kind === 'partition') && process.getuid?.() === 0 && canRun('unshare', ['--mount', 'true'])
  );
}

/** Why a kind of fault cannot happen here; undefined when it can. */
export function whyNot(kind: FaultKind): string | undefined {
  switch (kind) {
    case 'kill':
    case 'pause':
    case 'cut':
      return undefined;
    case 'clock':
      return findLibrary() === undefined ? 'libfaketime is not installed' : undefined;
    case 'disk':
      return hasOwnMounts() ? undefined : 'mounting a small disk needs root';
    case 'partition':
      if (!hasOwnMounts()) return 'network namespaces need root';
      return canRun('ip', ['-V']) && canRun('iptables', ['-V']) ? undefined : 'iproute2 and iptables are not installed';
  }
}

/** Of kinds that can happen. `folder` holds what the faults keep. */
export function prepareFaults(kinds: Options['faults'], folder: string): Prepared {
  const sources = new Map<FaultKind, FaultSource>();
  const all: { kill: FaultSource; pause: FaultSource; cut: FaultSource; disk: FaultSource } = { kill, pause, cut, disk };
  const clock = kinds.includes('clock') ? clockFaults(findLibrary() ?? '', folder) : undefined;
  const network = kinds.includes('partition') ? new Network() : undefined;
  for (const kind of kinds) {
    if (kind === 'clock' && clock !== undefined) sources.set(kind, clock.source);
    else if (kind === 'partition' && network !== undefined) sources.set(kind, network.source);
    else if (kind !== 'clock' && kind !== 'partition') sources.set(kind, all[kind]);
  }
  const withDisks = kinds.includes('disk');
  const mounted: string[] = [];
  return {
    sources,
    clockStepMs: clock === undefined ? 0 : 2 * FURTHEST_S * 1_000,
    settings: {
      ...plainSettings,
      ...(clock === undefined ? {} : { env: clock.env }),
      site: network?.site,
      prepareFolder: (part, path) => {
        if (!withDisks || !ON_OWN_DISK.some((name) => name === part)) return;
        mountDisk(path);
        mounted.push(path);
      },
      releaseFolders: () => {
        for (const path of mounted.splice(0)) unmountDisk(path);
      },
    },
    close: () => network?.close(),
  };
}

function canRun(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
