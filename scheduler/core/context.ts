/** What a step works with: the state it changes, the time, and where its operations and effects go. */
import type { CapstanError } from '../../lib/errors.ts';
import type { Op } from '../store/store.ts';

import type { Answer, BodyReservation, Effect, StepResult, Write } from './effects.ts';
import type { Cause } from './events.ts';
import type { State } from './state.ts';
import type { Now } from './now.ts';

export class StepContext {
  readonly state: State;
  readonly now: Now;
  readonly #result: StepResult;

  constructor(state: State, now: Now, result: StepResult) {
    this.state = state;
    this.now = now;
    this.#result = result;
  }

  /** Adds an operation to be committed. */
  write(op: Op, cause: Cause | null = null, endpoint: string | null = null, reserved: BodyReservation | null = null): Write {
    return this.#result.write(op, cause, endpoint, reserved);
  }

  /** Adds an effect; with `write`, one that is dropped when that operation is refused. */
  emit(effect: Effect, write: Write | null = null): void {
    this.#result.emit(effect, write);
  }

  /** Adds the answer to a unary call; with `write`, one that is dropped when that operation is refused. */
  reply(call: number, result: Answer | CapstanError, write: Write | null = null): void {
    this.#result.emit({ kind: 'answer', call, result }, write);
  }
}
