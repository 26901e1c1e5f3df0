import type { JSX } from 'preact';

import { Text } from '../ui/parts.tsx';

export interface LogLine {
  readonly at: string;
  readonly worker: string;
  readonly stream: string;
  readonly level: string | null;
  readonly text: string;
  readonly job: string | null;
  /** Number of the job's attempt, from 1; read for a job's own log. */
  readonly attempt?: number | null;
}

const BAD_LEVELS = new Set(['error', 'fatal']);

export function LogLines({ lines }: { lines: readonly LogLine[] }): JSX.Element {
  const hasAttempts = new Set(lines.map(({ attempt }) => attempt)).size > 1;
  return (
    <div class="log" role="log" aria-label="Log lines" tabIndex={0}>
      {lines.map(({ at, worker, stream, level, text, attempt }, index) => (
        <div key={`${at}-${worker}-${index}`} class={level !== null && BAD_LEVELS.has(level) ? 'bad' : stream}>
          <time>{new Date(at).toLocaleTimeString(undefined, { hour12: false })}</time> <span class="muted">{worker.slice(0, 6)}</span>{' '}
          {hasAttempts && attempt != null && <span class="muted">attempt {attempt} </span>}
          {level !== null && <b>{level} </b>}
          <Text of={text} />
        </div>
      ))}
    </div>
  );
}
