/**
 * Decides when `capstan up` starts, restarts and ends its parts, as a function of events.
 *
 *            needs are ready            says ready
 *  WAITING ─────────────────▶ STARTING ────────────▶ READY
 *                                ▲  │ exits            │ exits
 *                      time over │  ▼                  ▼
 *                              RESTING ◀────────────────
 *
 *  STARTING, READY ──exits with a reason that lasts──▶ ENDED
 *
 *  stop, in the stop order:  STARTING, READY ──SIGTERM──▶ ENDING ──exits──▶ ENDED   (SIGKILL after its grace)
 *                            WAITING, RESTING ──────────────────────────────▶ ENDED
 *
 * If a part refuses its first start with a reason, all parts are stopped (a port in use does not free itself). A part
 * that was ready is restarted without limit, with a growing pause. Only a part whose reason applies to every later
 * start stays ended; the others continue.
 */
import { assertNever, errorTable, type ErrorCode } from '../../lib/errors.ts';

export const FIRST_PAUSE_MS = 100;
export const LONGEST_PAUSE_MS = 5000;
/** After this time in READY, the pause of a part is reset to the first. */
export const HEALTHY_AFTER_MS = 10_000;
/** A part that is not ready by then is killed. */
export const START_LIMIT_MS = 60_000;
/** Number of exits without a reason that are permitted before a part was ever ready. */
export const FIRST_START_TRIES = 3;

/** Reasons that no restart can change: a part that is refused with one of them is not restarted. */
const LASTING_REASONS = ['NODE_REMOVED', 'DATA_LOST'] as const satisfies readonly ErrorCode[];

export interface PartRule {
  readonly name: string;
  /** Parts that must have been ready before this one is started for the first time. */
  readonly needs: readonly string[];
  /** Time between SIGTERM and SIGKILL, ms. */
  readonly graceMs: number;
}

/** Why a part refused to start; `code` is one of lib/errors.ts, and `message` is for people. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
}

export type Phase = 'WAITING' | 'STARTING' | 'READY' | 'RESTING' | 'ENDING' | 'ENDED';

interface PartState {
  readonly rule: PartRule;
  phase: Phase;
  /** When the phase began, ms. */
  since: number;
  /** End of a RESTING phase, SIGKILL of an ENDING one, limit of a STARTING one; else null. */
  deadline: number | null;
  everReady: boolean;
  /** Number of exits since it was last healthy. */
  deaths: number;
}

export interface State {
  /** In the order of starting; the stop order is separate. */
  readonly parts: ReadonlyMap<string, PartState>;
  readonly stopOrder: readonly string[];
  saidReady: boolean;
  stopping: boolean;
  refusal: Refusal | null;
}

export type Event =
  | { readonly type: 'begin' }
  | { readonly type: 'ready'; readonly part: string }
  /** `how` is for people: `exit code 1`, `SIGKILL`. */
  | { readonly type: 'exited'; readonly part: string; readonly how: string; readonly refusal: Refusal | null }
  /** A request to stop; the second one stops at once. */
  | { readonly type: 'stop' }
  | { readonly type: 'tick' };

export type Effect =
  | { readonly type: 'spawn'; readonly part: string }
  | { readonly type: 'kill'; readonly part: string; readonly signal: 'SIGTERM' | 'SIGKILL' }
  /** All parts are ready for the first time. */
  | { readonly type: 'all-ready' }
  | { readonly type: 'restarted'; readonly part: string }
  | { readonly type: 'warn'; readonly part: string; readonly text: string }
  /** No part runs any more. `refusal` is null after a requested stop. */
  | { readonly type: 'finished'; readonly refusal: Refusal | null };

/** Creates the state of a supervisor that has started nothing yet. `stopOrder` names every part once. */
export function newState(rules: readonly PartRule[], stopOrder: readonly string[]): State {
  const parts = new Map(
    rules.map((rule): [string, PartState] => [
      rule.name,
      { rule, phase: 'WAITING', since: 0, deadline: null, everReady: false, deaths: 0 },
    ]),
  );
  return { parts, stopOrder, saidReady: false, stopping: false, refusal: null };
}

/** Applies one event to the state and returns the actions. `now` is monotonic, ms. */
export function step(state: State, event: Event, now: number): Effect[] {
  switch (event.type) {
    case 'begin':
      return startWaiting(state, now);
    case 'ready':
      return ready(state, event.part, now);
    case 'exited':
      return exited(state, event, now);
    case 'stop':
      return stop(state, now);
    case 'tick':
      return tick(state, now);
    default:
      return assertNever(event);
  }
}

/** Returns when the next `tick` is due; null when only an event can change anything. */
export function nextDeadline(state: State): number | null {
  let next: number | null = null;
  for (const { deadline } of state.parts.values()) if (deadline !== null && (next === null || deadline < next)) next = deadline;
  return next;
}

function startWaiting(state: State, now: number): Effect[] {
  const effects: Effect[] = [];
  for (const part of state.parts.values()) {
    const free = part.rule.needs.every((name) => state.parts.get(name)?.everReady === true);
    if (part.phase === 'WAITING' && free) effects.push(spawn(part, now));
  }
  return effects;
}

function spawn(part: PartState, now: number): Effect {
  enter(part, 'STARTING', now, now + START_LIMIT_MS);
  return { type: 'spawn', part: part.rule.name };
}

function ready(state: State, name: string, now: number): Effect[] {
  const part = state.parts.get(name);
  if (part?.phase !== 'STARTING') return [];
  enter(part, 'READY', now, null);
  const effects: Effect[] = part.everReady ? [{ type: 'restarted', part: name }] : [];
  part.everReady = true;
  effects.push(...startWaiting(state, now));
  if (!state.saidReady && [...state.parts.values()].every((each) => each.everReady)) {
    state.saidReady = true;
    effects.push({ type: 'all-ready' });
  }
  return effects;
}

function exited(state: State, event: Event & { type: 'exited' }, now: number): Effect[] {
  const part = state.parts.get(event.part);
  if (part === undefined || part.phase === 'ENDED') return [];
  if (state.stopping) {
    enter(part, 'ENDED', now, null);
    return continueStop(state, now);
  }
  if (part.phase === 'READY' && now - part.since >= HEALTHY_AFTER_MS) part.deaths = 0;
  part.deaths += 1;
  if (!part.everReady && (event.refusal !== null || part.deaths >= FIRST_START_TRIES)) {
    state.refusal = event.refusal ?? { code: 'INTERNAL', message: `the ${event.part} ended before it was ready (${event.how})` };
    enter(part, 'ENDED', now, null);
    state.stopping = true;
    return continueStop(state, now);
  }
  const lasting = LASTING_REASONS.find((code) => code === event.refusal?.code);
  if (event.refusal !== null && lasting !== undefined) {
    enter(part, 'ENDED', now, null);
    const { hint } = errorTable[lasting];
    return [{ type: 'warn', part: event.part, text: `the ${event.part} ended (${event.refusal.message}) and is not restarted. ${hint}` }];
  }
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(part.deaths - 1, 16));
  enter(part, 'RESTING', now, now + pause);
  const why = event.refusal === null ? event.how : event.refusal.message;
  return [{ type: 'warn', part: event.part, text: `the ${event.part} ended (${why}); restarting it in ${pause} ms` }];
}

function stop(state: State, now: number): Effect[] {
  if (state.stopping) return killAll(state, now);
  state.stopping = true;
  return continueStop(state, now);
}

function killAll(state: State, now: number): Effect[] {
  const effects: Effect[] = [];
  for (const part of state.parts.values()) {
    if (!isAlive(part)) continue;
    enter(part, 'ENDING', now, null);
    effects.push({ type: 'kill', part: part.rule.name, signal: 'SIGKILL' });
  }
  return effects;
}

/** Ends the next part of the stop order; a part is told to end only after those before it have ended. */
function continueStop(state: State, now: number): Effect[] {
  for (const name of state.stopOrder) {
    const part = state.parts.get(name);
    if (part === undefined || part.phase === 'ENDED') continue;
    if (part.phase === 'ENDING') return [];
    if (isAlive(part)) {
      enter(part, 'ENDING', now, now + part.rule.graceMs);
      return [{ type: 'kill', part: name, signal: 'SIGTERM' }];
    }
    enter(part, 'ENDED', now, null);
  }
  return [{ type: 'finished', refusal: state.refusal }];
}

function tick(state: State, now: number): Effect[] {
  const effects: Effect[] = [];
  for (const part of state.parts.values()) {
    if (part.deadline === null || part.deadline > now) continue;
    const name = part.rule.name;
    part.deadline = null;
    if (part.phase === 'RESTING') effects.push(spawn(part, now));
    else if (part.phase === 'STARTING') {
      effects.push({ type: 'warn', part: name, text: `the ${name} was not ready after ${START_LIMIT_MS / 1000} s; stopping it` });
      effects.push({ type: 'kill', part: name, signal: 'SIGKILL' });
    } else if (part.phase === 'ENDING') {
      effects.push({ type: 'warn', part: name, text: `the ${name} did not stop within ${part.rule.graceMs / 1000} s; killing it` });
      effects.push({ type: 'kill', part: name, signal: 'SIGKILL' });
    }
  }
  return effects;
}

function isAlive(part: PartState): boolean {
  return part.phase === 'STARTING' || part.phase === 'READY' || part.phase === 'ENDING';
}

function enter(part: PartState, phase: Phase, now: number, deadline: number | null): void {
  part.phase = phase;
  part.since = now;
  part.deadline = deadline;
}
