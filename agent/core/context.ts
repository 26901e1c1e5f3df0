/** What a step works with: the state it changes, the time, and the list of its effects. */
import type { Effect } from './events.ts';
import type { State } from './state.ts';

export class StepContext {
  readonly state: State;
  /** Monotonic, ms. */
  readonly now: number;
  /** Effects to carry out, in order. */
  readonly effects: Effect[] = [];

  constructor(state: State, now: number) {
    this.state = state;
    this.now = now;
  }

  emit(effect: Effect): void {
    this.effects.push(effect);
  }
}
