import type { Migration } from './migration.ts';
import { queue } from './0001_queue.ts';
import { cells } from './0004_cells.ts';

/** In order of their numbers. */
export const migrations: readonly Migration[] = [queue, cells];
