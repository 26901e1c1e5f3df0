/** The last hour of endpoints as small lines: jobs and errors by minute. */
import type { JSX } from 'preact';

import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { Sparkline } from '../ui/sparkline.tsx';

interface Line {
  readonly submitted: readonly number[];
  readonly failed: readonly number[];
  readonly timedOut: readonly number[];
}

export type Lines = ReadonlyMap<string, Line>;

const HOUR_MS = 3_600_000;
const STEP_S = 120;
const POLL_MS = 120_000;
/** The gateway takes as many fields of a query. */
const OF_A_QUERY = 20;
/** Endpoints beyond these have no line: a list this long is filtered. */
const MOST = 100;

async function read(ids: readonly string[], signal: AbortSignal): Promise<Lines> {
  const from = Date.now() - HOUR_MS;
  const lines = new Map<string, Line>();
  for (let first = 0; first < ids.length; first += OF_A_QUERY) {
    const some = ids.slice(first, first + OF_A_QUERY);
    const variables = some.map((_, i) => `$id${i}: ID!`).join(', ');
    const fields = some.map((_, i) => `e${i}: history(endpoint: $id${i}, from: $from, step: ${STEP_S}) { submitted failed timedOut }`);
    const given = Object.fromEntries(some.map((id, i) => [`id${i}`, id]));
    const found = await graphql<Record<string, Line>>(
      `query ($from: Float!, ${variables}) { ${fields.join(' ')} }`,
      { from, ...given },
      signal,
    );
    for (const [i, id] of some.entries()) {
      const line = found[`e${i}`];
      if (line !== undefined) lines.set(id, line);
    }
  }
  return lines;
}

export function useActivityLines(ids: readonly string[]): Lines | undefined {
  const wanted = ids.slice(0, MOST);
  return useLive(['activity-lines', wanted.toSorted().join(' ')], (signal) => read(wanted, signal), POLL_MS).data;
}

export function ActivityLine({ line }: { line: Line | undefined }): JSX.Element | null {
  if (line === undefined) return null;
  const failed = line.failed.map((count, i) => count + (line.timedOut[i] ?? 0));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return (
    <Sparkline label={`${sum(line.submitted)} jobs in the last hour, ${sum(failed)} failed`} values={line.submitted} errors={failed} />
  );
}
