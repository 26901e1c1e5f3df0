/**
 * Shows what is running at this moment: on a terminal one line that changes, with rate and time left; elsewhere one line
 * every ten seconds, so that a log shows a long step without being filled by it.
 */
import { sizeText } from './size-text.ts';
import type { Terminal } from './terminal.ts';

/** Time between two lines in a log, ms. */
const LINE_EVERY_MS = 10_000;
/** Time between two changes on a terminal, ms. */
const CHANGE_EVERY_MS = 100;
const TICK_MS = 1_000;
/** A first report of more bytes continues an earlier step. */
const FIRST_REPORT_BYTES = 1_000_000;
/** A rate over less time says nothing, ms. */
const SHORTEST_RATE_MS = 500;

export interface Activity {
  /** Begins a step, `resolving packages`, which ends the former one. */
  begin(text: string): void;
  /** Bytes of the step that are done, of all its bytes; `detail` names what is worked on. */
  at(done: number, total: number, detail?: string): void;
  /** Says what the step works on, where its bytes are not known. */
  detail(text: string): void;
  /** Ends the step; the line of a terminal goes. */
  end(): void;
}

export interface ActivityClock {
  /** Milliseconds. */
  now(): number;
  /** Calls until the returned function is called. */
  every(ms: number, call: () => void): () => void;
}

const systemClock: ActivityClock = {
  now: () => performance.now(),
  every(ms, call) {
    const timer = setInterval(call, ms);
    timer.unref();
    return () => clearInterval(timer);
  },
};

export interface Step {
  readonly text: string;
  readonly detail: string;
  readonly done: number;
  /** What was done before the step, as by an upload that was interrupted. */
  readonly before: number;
  /** Zero when unknown. */
  readonly total: number;
  readonly elapsedMs: number;
}

/** `downloading 12.3 MB of 45.6 MB, 3.1 MB/s, 11 s left (numpy)`. */
export function stepText({ text, detail, done, before, total, elapsedMs }: Step): string {
  const named = detail === '' ? '' : ` (${detail})`;
  if (total === 0) return `${text}${named}${elapsedMs < TICK_MS ? '' : `, ${timeText(elapsedMs)}`}`;
  const amount = `${text} ${sizeText(done)} of ${sizeText(total)}`;
  if (done <= before || elapsedMs < SHORTEST_RATE_MS) return `${amount}${named}`;
  const perMs = (done - before) / elapsedMs;
  return `${amount}, ${sizeText(perMs * 1000)}/s, ${timeText((total - done) / perMs)} left${named}`;
}

/** `11 s`, `2 min 5 s`. */
function timeText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function createActivity(terminal: Terminal, clock: ActivityClock = systemClock): Activity {
  let step: Omit<Step, 'elapsedMs'> | null = null;
  let begun = 0;
  let shown = 0;
  let stop = (): void => undefined;
  const show = (): void => {
    if (step === null) return;
    const text = stepText({ ...step, elapsedMs: clock.now() - begun });
    if (terminal.isLive) terminal.progress(`=> ${text}`);
    else terminal.step(text);
    shown = clock.now();
  };
  const change = (changed: Partial<Step>): void => {
    if (step === null) return;
    step = { ...step, ...changed };
    if (terminal.isLive && clock.now() - shown >= CHANGE_EVERY_MS) show();
  };
  return {
    begin(text) {
      this.end();
      step = { text, detail: '', done: 0, before: 0, total: 0 };
      begun = clock.now();
      if (terminal.isLive) show();
      stop = clock.every(terminal.isLive ? TICK_MS : LINE_EVERY_MS, show);
    },
    at(done, total, detail) {
      // The first report of a step that continues another has the bytes of both.
      const before = step?.total === 0 && done > FIRST_REPORT_BYTES ? done : step?.before;
      change({ done, total, ...(before === undefined ? {} : { before }), ...(detail === undefined ? {} : { detail }) });
    },
    detail: (detail) => change({ detail }),
    end() {
      stop();
      stop = () => undefined;
      if (step !== null) terminal.progress('');
      step = null;
    },
  };
}
