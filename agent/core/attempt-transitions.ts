/**
 * State machine of an attempt on its node: one table, phase × event → next phase.
 *
 *   accept ─▶ fetching ──input──▶ handed ──enter──▶ running ──overrun──▶ lingering
 *                │                  │ ▲ │             │ ▲ │                  │
 *                │                  │ └─┘ stop        │ └─┘ stop             │ end
 *                │ refuse    refuse │ └──────end──────┤                      ▼
 *                ▼                  ▼                 └────────end───────▶ storing ──stored──▶ ended
 *               gone ◀──────────────┴─────────────────────────────────ack────┴────────────────┘
 *
 * running: also refused when its handler was stopped by force together with another one.
 * storing: the end is decided, and large bodies are being written to the blob store.
 * lingering: the attempt is over but its handler still runs and holds the slot until it ends.
 * An event that the table does not allow changes nothing (invariant 3).
 */
export type AttemptPhase = 'fetching' | 'handed' | 'running' | 'lingering' | 'storing' | 'ended' | 'gone';

export type AttemptEvent =
  /** The input is complete; the worker receives the job. */
  | 'input'
  /** The handler was entered. */
  | 'enter'
  /** The handler is asked to stop. */
  | 'stop'
  /** The lease is returned to the scheduler. */
  | 'refuse'
  /** The handler has ended, or can no longer report an end. */
  | 'end'
  /** The attempt timed out while its handler still runs. */
  | 'overrun'
  /** The output and all chunks are stored. */
  | 'stored'
  /** The scheduler has acknowledged the end. */
  | 'ack';

type AttemptTable = { readonly [P in AttemptPhase]: { readonly [E in AttemptEvent]: AttemptPhase | null } };

const NOTHING = { input: null, enter: null, stop: null, refuse: null, end: null, overrun: null, stored: null, ack: null } as const;

const TABLE: AttemptTable = {
  fetching: { ...NOTHING, input: 'handed', refuse: 'gone' },
  handed: { ...NOTHING, enter: 'running', stop: 'handed', refuse: 'gone', end: 'storing' },
  running: { ...NOTHING, stop: 'running', refuse: 'gone', end: 'storing', overrun: 'lingering' },
  lingering: { ...NOTHING, end: 'storing' },
  storing: { ...NOTHING, stored: 'ended', ack: 'gone' },
  ended: { ...NOTHING, ack: 'gone' },
  gone: NOTHING,
};

/** Whether an attempt in a phase holds one of its worker's slots (invariant 8). */
const HOLDS_SLOT: { readonly [P in AttemptPhase]: boolean } = {
  fetching: true,
  handed: true,
  running: true,
  lingering: true,
  storing: false,
  ended: false,
  gone: false,
};

/** Returns the phase after an event, or null when the current phase forbids it. */
export function phaseAfter(phase: AttemptPhase, event: AttemptEvent): AttemptPhase | null {
  return TABLE[phase][event];
}

export function holdsSlot(phase: AttemptPhase): boolean {
  return HOLDS_SLOT[phase];
}
