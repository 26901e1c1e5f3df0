import { queue } from './0001_queue.ts';
import { deployments } from './0002_deployments.ts';
import type { Migration } from './migration.ts';

/** Every migration this version knows, in order. */
export const migrations: readonly Migration[] = [queue, deployments];
