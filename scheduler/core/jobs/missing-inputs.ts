/**
 * Inputs that agents do not find in the blob store. A folder that hosts share may show a file late, and an owner that has just
 * taken over does not know the leases of its predecessor yet: one refusal proves nothing. An input that nobody finds for a while
 * is lost, for example after a restore without the blobs; its job fails instead of being tried until its ttl is over.
 *
 * A store that does not answer is another matter: it may be back in an hour, with the input.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';

/** What it takes to call an input lost: refusals by agents, and the time since the first of them, ms. */
export const LOST_AFTER_REFUSALS = 5;
export const LOST_AFTER_MS = 10_000;
/** Jobs that are remembered; the oldest is forgotten, and counted anew. */
const MAX_JOBS = 1_000;

/** Counts a refusal. Returns the reason why the job has failed, or null while it is to be tried again. `mono` is in ms. */
export function missingInput({ missingInputs }: State, { id }: JobRecord, mono: number): CapstanError | null {
  const { count, since } = missingInputs.get(id) ?? { count: 0, since: mono };
  missingInputs.delete(id);
  if (count + 1 >= LOST_AFTER_REFUSALS && mono - since >= LOST_AFTER_MS)
    return new CapstanError('NOT_FOUND', `the input is not in the blob store: agents looked for it ${count + 1} times`);
  missingInputs.set(id, { count: count + 1, since });
  for (const oldest of missingInputs.keys()) {
    if (missingInputs.size <= MAX_JOBS) break;
    missingInputs.delete(oldest);
  }
  return null;
}
