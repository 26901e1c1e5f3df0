/**
 * The life cycle of a job: one table, phase × event → next phase and its consequences.
 *
 *    NEW ───submit-leased──────────┐
 *     │                            │ ┌──── requeue (refused, or worker lost with attempts left)
 *     │ submit                     ▼ ▼
 *     └─────────▶ QUEUED ──lease─▶ LEASED ──start──▶ STARTED
 *   ┌─retry────────▲ │ │             │ │               │ │ │
 *   │         cancel │ │ expire      │ │               │ │ └─ complete ─▶ COMPLETED ─┐
 *   │                ▼ ▼             ▼ ▼               │ └─── fail ─────▶ FAILED ────┤ expire
 *   │        CANCELLED DELETED  (as STARTED: the       └───── time-out ─▶ TIMED_OUT ─┤ (retention
 *   │                            start may be                 cancel ───▶ CANCELLED ─┤  is over)
 *   └── FAILED, TIMED_OUT        reported with the end)                              ▼
 *                                                                                 DELETED
 *
 * LEASED: assigned to a worker, not reported started; callers still see IN_QUEUE.
 * An event that the table does not allow is refused or ignored: late progress and results change nothing
 * (invariant 3). The store repeats the guards in SQL. Only `applyEvent` (job-records.ts) applies the table.
 */

/** NEW: about to be submitted. DELETED: deleted, or refused by the store. */
export type Phase = 'NEW' | 'QUEUED' | 'LEASED' | 'STARTED' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'DELETED';

export type JobEvent =
  /** No slot is free, or other jobs wait before it. */
  | 'submit'
  /** A slot is free: the lease is written with the submission. */
  | 'submit-leased'
  /** The first job of a lane gets a free slot. */
  | 'lease'
  /** The agent reported that the handler was entered. */
  | 'start'
  | 'complete'
  | 'fail'
  | 'time-out'
  /** The lease was not used, or its worker was lost and attempts are left. */
  | 'requeue'
  | 'cancel'
  /** The ttl or the retention is over. */
  | 'expire'
  | 'retry'
  /** The store refused the submission or the retry. */
  | 'refuse';

export interface Transition {
  readonly to: Phase;
  /** The store operation that records it; null if a later one includes it. */
  readonly op: 'submit' | 'lease' | 'finish' | 'requeue' | 'delete' | 'retry' | null;
  /** The job's place in the queue: enters at the tail, returns to its own position, is taken at the head, leaves. */
  readonly queue: 'enter' | 'return' | 'take' | 'leave' | null;
  /** Change of the endpoint's running jobs. */
  readonly running: 1 | 0 | -1;
  /** The endpoint's counter that it increments; `attempt` also charges the job. */
  readonly counts: 'attempt' | 'completed' | 'failed' | 'retry' | null;
}

type Table = { readonly [P in Phase]: { readonly [E in JobEvent]: Transition | null } };

const NOTHING = {
  submit: null,
  'submit-leased': null,
  lease: null,
  start: null,
  complete: null,
  fail: null,
  'time-out': null,
  requeue: null,
  cancel: null,
  expire: null,
  retry: null,
  refuse: null,
} as const;

const QUEUED = { queue: 'leave', running: 0 } as const;
const RUNNING = { queue: null, running: -1 } as const;
const NEITHER = { queue: null, running: 0 } as const;

const CANCEL = { to: 'CANCELLED', op: 'finish', counts: null } as const;
const EXPIRE = { to: 'DELETED', op: 'delete', counts: null } as const;
const REFUSE = { to: 'DELETED', op: null, counts: null } as const;

const HELD = {
  complete: { to: 'COMPLETED', op: 'finish', counts: 'completed', ...RUNNING },
  fail: { to: 'FAILED', op: 'finish', counts: 'failed', ...RUNNING },
  'time-out': { to: 'TIMED_OUT', op: 'finish', counts: 'failed', ...RUNNING },
  requeue: { to: 'QUEUED', op: 'requeue', queue: 'return', running: -1, counts: null },
  cancel: { ...CANCEL, ...RUNNING },
  expire: { ...EXPIRE, ...RUNNING },
  refuse: { ...REFUSE, ...RUNNING },
} as const;
const ENDED = { expire: { ...EXPIRE, ...NEITHER }, refuse: { ...REFUSE, ...NEITHER } } as const;
const RETRY = { to: 'QUEUED', op: 'retry', queue: 'enter', running: 0, counts: 'retry' } as const;

const TABLE = {
  NEW: {
    ...NOTHING,
    submit: { to: 'QUEUED', op: 'submit', queue: 'enter', running: 0, counts: null },
    'submit-leased': { to: 'LEASED', op: 'submit', queue: null, running: 1, counts: null },
  },
  QUEUED: {
    ...NOTHING,
    lease: { to: 'LEASED', op: 'lease', queue: 'take', running: 1, counts: null },
    cancel: { ...CANCEL, ...QUEUED },
    expire: { ...EXPIRE, ...QUEUED },
    refuse: { ...REFUSE, ...QUEUED },
  },
  LEASED: { ...NOTHING, ...HELD, start: { to: 'STARTED', op: null, counts: 'attempt', ...NEITHER } },
  STARTED: { ...NOTHING, ...HELD },
  COMPLETED: { ...NOTHING, ...ENDED },
  FAILED: { ...NOTHING, ...ENDED, retry: RETRY },
  CANCELLED: { ...NOTHING, ...ENDED },
  TIMED_OUT: { ...NOTHING, ...ENDED, retry: RETRY },
  DELETED: NOTHING,
} as const satisfies Table;

/** The transition of an event in a phase; null if the phase forbids it. */
export type Cell<P extends Phase, E extends JobEvent> = (typeof TABLE)[P][E];

/** Returns the transition for an event in a phase, or null if the phase forbids it. */
export function transition<P extends Phase, E extends JobEvent>(phase: P, event: E): Cell<P, E> {
  return TABLE[phase][event];
}
