import type { Migration } from './migration.ts';
import { queue } from './0001_queue.ts';

/** In order of their numbers. */
export const migrations: readonly Migration[] = [queue];
