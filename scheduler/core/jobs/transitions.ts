/**
 * The life of a job: one table, state × event → next state and what is written.
 *
 *                    submit
 *                      │            ┌───────── requeue (refused, or worker lost with attempts left)
 *                      ▼            ▼
 *   retry ──────▶  QUEUED ──lease─▶ LEASED ──start──▶ STARTED
 *   ▲                │ │              │ │               │ │ │
 *   │         cancel │ │ expire       │ │               │ │ └─ complete ─▶ COMPLETED ─┐
 *   │                ▼ ▼              ▼ ▼               │ └─── fail ─────▶ FAILED ────┤ expire
 *   │        CANCELLED DELETED   (as QUEUED, and        └───── time-out ─▶ TIMED_OUT ─┤ (retention
 *   │                             complete … too:              cancel ───▶ CANCELLED ─┤  is over)
 *   └── FAILED, TIMED_OUT         the start may be                                    ▼
 *                                 reported with the end)                           DELETED
 *
 * LEASED: handed to a worker, not reported started; callers still see IN_QUEUE.
 * Whatever the table does not list is refused or ignored: late progress and results change nothing
 * (invariant 3). The store repeats the guards in SQL.
 */

export type Phase = 'QUEUED' | 'LEASED' | 'STARTED' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT' | 'DELETED';

export type JobEvent =
  /** A free slot was found. */
  | 'lease'
  /** The agent reported that the handler was entered. */
  | 'start'
  | 'complete'
  | 'fail'
  | 'time-out'
  /** The lease came to nothing, or its worker was lost and attempts are left. */
  | 'requeue'
  | 'cancel'
  /** ttl or retention is over. */
  | 'expire'
  | 'retry';

/** The store operation that records a transition; `later` means it is written with a following one. */
export type Recording = 'lease' | 'later' | 'finish' | 'requeue' | 'delete' | 'retry';

export interface Transition {
  readonly to: Phase;
  readonly write: Recording;
}

const end = (to: Phase): Transition => ({ to, write: 'finish' });
const gone: Transition = { to: 'DELETED', write: 'delete' };
const leasedOrStarted = {
  complete: end('COMPLETED'),
  fail: end('FAILED'),
  'time-out': end('TIMED_OUT'),
  requeue: { to: 'QUEUED', write: 'requeue' },
  cancel: end('CANCELLED'),
  expire: gone,
  lease: null,
  retry: null,
} as const;
const ended = { lease: null, start: null, complete: null, fail: null, 'time-out': null, requeue: null, cancel: null } as const;

const table: { readonly [P in Phase]: { readonly [E in JobEvent]: Transition | null } } = {
  QUEUED: {
    lease: { to: 'LEASED', write: 'lease' },
    cancel: end('CANCELLED'),
    expire: gone,
    start: null,
    complete: null,
    fail: null,
    'time-out': null,
    requeue: null,
    retry: null,
  },
  LEASED: { ...leasedOrStarted, start: { to: 'STARTED', write: 'later' } },
  STARTED: { ...leasedOrStarted, start: null },
  COMPLETED: { ...ended, expire: gone, retry: null },
  FAILED: { ...ended, expire: gone, retry: { to: 'QUEUED', write: 'retry' } },
  CANCELLED: { ...ended, expire: gone, retry: null },
  TIMED_OUT: { ...ended, expire: gone, retry: { to: 'QUEUED', write: 'retry' } },
  DELETED: { ...ended, expire: null, retry: null },
};

/** The transition for an event in a phase, or null when the phase forbids it. */
export function transition(phase: Phase, event: JobEvent): Transition | null {
  return table[phase][event];
}
