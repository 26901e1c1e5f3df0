/**
 * What the attempts of a job that did not end it cost (docs/invariants.md, invariant 6). The sums are kept with the list of
 * past attempts.
 */

/** Absent: 0. */
export interface AttemptSums {
  /** Attempts since the submission or retry that started and do not count towards maxAttempts. */
  readonly uncharged?: number;
  /** Attempts over the job's whole life that ended with a worker which several of them may have ended. */
  readonly suspected?: number;
  /** Those of them since the submission or retry that are not charged so far. */
  readonly openSuspicions?: number;
  /** Attempts since the submission or retry that may have ended their worker or did. */
  readonly workerEnds?: number;
}

/** How a started attempt ended. */
export type AttemptCost =
  /** It ended its worker, and nothing else did. */
  | 'culprit'
  /** It ran with others on a worker that one of them ended, nobody knows which. */
  | 'suspected'
  /** It is not charged for another reason: a neighbour ended the worker. */
  | 'spared'
  /** It is charged, and had nothing to do with the end of its worker. */
  | 'charged';

/** Suspicions after which a job runs alone on its worker, however many attempts it has left. */
const MAX_SUSPICIONS = 2;

/** Returns the sums with an attempt more. One that ended its worker for certain makes the suspicions before it certain, too. */
export function sumsAfter(before: AttemptSums, cost: AttemptCost): AttemptSums {
  const { uncharged = 0, suspected = 0, openSuspicions = 0, workerEnds = 0 } = before;
  switch (cost) {
    case 'culprit':
      return { uncharged: uncharged - openSuspicions, suspected, openSuspicions: 0, workerEnds: workerEnds + 1 };
    case 'suspected':
      return {
        uncharged: uncharged + 1,
        suspected: suspected + 1,
        openSuspicions: openSuspicions + 1,
        workerEnds: workerEnds + 1,
      };
    case 'spared':
      return { ...before, uncharged: uncharged + 1 };
    case 'charged':
      return before;
  }
}

/**
 * Whether the next attempt runs alone on its worker: the worker ended under the job, and this is the last attempt if the
 * job did that; or it was suspected again and again. So `maxAttempts` holds also for a job that always ends its worker
 * and is never known to. `started`: attempts so far, since the submission or retry.
 */
export function mustRunAlone(sums: AttemptSums, started: number, maxAttempts: number): boolean {
  const { uncharged = 0, suspected = 0, openSuspicions = 0, workerEnds = 0 } = sums;
  return suspected >= MAX_SUSPICIONS || (workerEnds > 0 && started - (uncharged - openSuspicions) >= maxAttempts - 1);
}
