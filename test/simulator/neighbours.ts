/** Attempts that did not end their worker: they never count towards maxAttempts, whatever else happens (invariant 6). */
import { pastAttempts } from '../../scheduler/core/jobs/past-attempts.ts';
import type { Op } from '../../scheduler/core/ports/store.ts';

type Requeue = Extract<Op, { kind: 'requeue' }>;
type Finish = Extract<Op, { kind: 'finish' }>;

/** How hosts of this world die. */
export const KILLED = 'it was killed';

export class Neighbours {
  readonly #blameless = new Set<string>();

  /** A host died under this attempt, which did nothing, or of which nobody knows. */
  add(job: string, token: number): void {
    this.#blameless.add(`${job} ${token}`);
  }

  /** Its node may be lost before its agent says more: only what is said of the worker is checked. */
  requeued(job: string, { token, attempts, pastAttempts: text }: Requeue): void {
    if (!this.#blameless.has(`${job} ${token}`)) return;
    const list = pastAttempts(text);
    const [before, last] = [list.at(-2), list.at(-1)];
    if (last === undefined || last.reason === 'NODE_LOST' || last.startedAt === null) return;
    const known = before?.submittedAt === last.submittedAt ? (before.uncharged ?? 0) : 0;
    // An attempt that the service ended, such as one whose agent forgot it, is not counted at all.
    const charged = attempts - (last.uncharged ?? 0);
    if (charged !== last.attempt - 1 - known) throw new Error(`invariant broken: job ${job} is charged for what a neighbour did`);
  }

  finished(job: string, { token, error }: Finish): void {
    if (this.#blameless.has(`${job} ${token}`) && error?.startsWith(KILLED) === true)
      throw new Error(`invariant broken: job ${job} ended for what a neighbour did`);
  }
}

/** Jobs that run apart have their worker for themselves. */
export function checkApart(worker: string, attempts: Iterable<{ readonly job: string; readonly isApart: boolean }>): void {
  const held = [...attempts];
  const apart = held.find(({ isApart }) => isApart);
  if (apart !== undefined && held.length > 1)
    throw new Error(`invariant broken: job ${apart.job} runs apart beside ${held.length - 1} others on worker ${worker}`);
}
