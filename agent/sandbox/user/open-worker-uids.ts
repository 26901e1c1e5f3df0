/** Takes user ids for workers that nothing of an earlier worker uses any more. */
import type { Logger } from 'pino';

import type { UidRange } from '../uid-range.ts';
import { WorkerUids, type WorkerUidsOptions } from '../worker-uids.ts';
import { removeRemains } from './remains.ts';

/**
 * As WorkerUids.open: ends and removes what workers of dead agents left, at whatever level. `removeFolders` removes
 * their folders, where they have any outside of their agent's data.
 */
export function openWorkerUids(
  options: WorkerUidsOptions,
  log: Pick<Logger, 'warn'>,
  removeFolders: (slot: UidRange) => Promise<void> = () => Promise.resolve(),
): Promise<WorkerUids> {
  return WorkerUids.open(options, async (slot) => {
    const left = await removeRemains(slot);
    if (left.length > 0) log.warn({ pids: left }, 'processes of workers of an earlier agent do not end');
    await removeFolders(slot);
  });
}
