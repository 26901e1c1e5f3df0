/** A commit loop by itself: a store that answers when the test says so, a core that decides what the test says. */
import { StepResult, type Write } from '../../../scheduler/core/effects.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { newState } from '../../../scheduler/core/state.ts';
import { CommitLoop } from '../../../scheduler/engine/commit-loop.ts';
import type { Completion } from '../../../scheduler/engine/loop-store.ts';
import type { Op, Outcome } from '../../../scheduler/core/ports/store.ts';
import { CallbackQueue } from '../../support/instant-loop.ts';

export type Decide = (result: StepResult) => void;

export interface Batch {
  readonly seqs: number[];
  readonly completion: Completion<readonly Outcome[]>;
}

export const OK: Outcome = { kind: 'ok' };

function unused(): never {
  throw new Error('the loop only commits');
}

/** A loop whose steps do what `turn` is given; each call of `turn` is one turn of the event loop. */
export function loopOfTest(fenceMs: number | null = null) {
  const callbacks = new CallbackQueue();
  const decisions: Decide[] = [];
  const batches: Batch[] = [];
  const performed: string[] = [];
  const refused: number[] = [];
  const failures: unknown[] = [];
  const renewals: number[] = [];
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  const interruptions = new Map<string, () => void>();
  let mono = 0;
  const loop = new CommitLoop(
    {
      state: newState(defaultSettings, [1, 2, 3, 4]),
      step: (_state, event, _now, result) => {
        if (event.kind === 'refused' && event.op.kind === 'delete') refused.push(event.op.seq);
        decisions.shift()?.(result);
      },
      store: {
        fenceMs,
        commit: (_fence, ops, completion) => void batches.push({ seqs: ops.map(seqOf), completion }),
        read: unused,
        search: unused,
        acquire: unused,
      },
      fence: { cell: 0, term: 1n },
      clock: {
        now: () => ({ wall: 0, mono }),
        after: (ms, run) => {
          const timer = { at: mono + ms, run };
          timers.add(timer);
          return () => void timers.delete(timer);
        },
        defer: (run) => callbacks.push(run),
      },
      sink: {
        committed: () => undefined,
        perform: (effect) => {
          const name = effect.kind === 'deliver' ? effect.id : effect.kind;
          performed.push(name);
          interruptions.get(name)?.();
        },
        failed: (error) => void failures.push(error),
        broken: (error) => void failures.push(error),
        renewed: () => void renewals.push(mono),
      },
    },
    new StepResult(),
  );
  const turn = (...decided: Decide[]): void => {
    decisions.push(...decided);
    for (let i = 0; i < decided.length; i++) loop.handle({ kind: 'tick' });
    callbacks.drain();
  };
  const commit = (outcomes: readonly Outcome[] = []): void => {
    const batch = batches.shift();
    batch?.completion.done(batch.seqs.map((_seq, i) => outcomes[i] ?? OK));
    callbacks.drain();
  };
  /** The process is paused for so long: no timer is run before it goes on. */
  const pause = (ms: number): void => {
    mono += ms;
  };
  /** Time passes, and timers that are due are run. */
  const pass = (ms: number): void => {
    mono += ms;
    for (const timer of [...timers]) {
      if (timer.at > mono || !timers.delete(timer)) continue;
      timer.run();
      callbacks.drain();
    }
  };
  /** Something happens in the middle of an effect. */
  const interrupt = (effect: string, happen: () => void): void => void interruptions.set(effect, happen);
  return { loop, turn, commit, batches, performed, refused, failures, decisions, renewals, timers, pause, pass, interrupt, callbacks };
}

function seqOf(op: Op): number {
  return op.kind === 'delete' ? op.seq : 0;
}

/** Decides one operation and an effect that follows from it. */
export function writing(seq: number): Decide {
  return (result) => {
    const write: Write = result.write({ kind: 'delete', seq, dueBy: null });
    result.emit({ kind: 'deliver', id: `after ${seq}` }, write);
  };
}

export function writingMany(first: number, count: number): Decide[] {
  return Array.from({ length: count }, (_, i) => writing(first + i));
}

export function telling(id: string): Decide {
  return (result) => result.emit({ kind: 'deliver', id });
}
