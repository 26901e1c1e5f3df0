/** The last hour of endpoints as small lines: jobs and errors by minute. */
import type { JSX } from 'preact';

import { JOB_ACTIVITY, ROUTE_ACTIVITY, type JobActivity, type Kind, type RouteActivity } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { minuteTime } from '../ui/plot-times.ts';
import { Sparkline } from '../ui/sparkline.tsx';

export type Lines = ReadonlyMap<string, JobActivity>;

const HOUR_MS = 3_600_000;
const STEP_S = 120;
/** The hour of routes ends now, in steps of five minutes. */
const ROUTE_STEPS = 12;
const ROUTE_STEP_MS = 300_000;
const POLL_MS = 300_000;
/** The gateway takes as many fields of a query. */
const OF_A_QUERY = 20;
/** Endpoints beyond these have no line: a list this long is filtered. */
const MAX = 100;

/** An endpoint of the list. */
export interface Listed {
  readonly id: string;
  readonly kind: Kind;
}

function fieldOf({ kind }: Listed, place: number): string {
  return kind === 'QUEUE'
    ? `e${place}: history(endpoint: $id${place}, from: $from, step: ${STEP_S}) { ${JOB_ACTIVITY} }`
    : `e${place}: routeFigures(endpoint: $id${place}) { ${ROUTE_ACTIVITY} }`;
}

function lineOf(found: JobActivity | readonly RouteActivity[]): JobActivity {
  if ('submitted' in found) return found;
  const total = (values: (route: RouteActivity) => readonly number[]): number[] =>
    Array.from({ length: ROUTE_STEPS }, (_, step) => found.reduce((sum, route) => sum + (values(route)[step] ?? 0), 0));
  const [submitted, failed] = [total((route) => route.requestsByStep), total((route) => route.errorsByStep)];
  const completed = submitted.map((count, step) => count - (failed[step] ?? 0));
  const at = submitted.map((_, step) => Date.now() - (ROUTE_STEPS - step) * ROUTE_STEP_MS);
  return { at, submitted, completed, failed, timedOut: [], openSteps: 1, delay: { p95: [] } };
}

async function read(endpoints: readonly Listed[], signal: AbortSignal): Promise<Lines> {
  const from = Date.now() - HOUR_MS;
  const lines = new Map<string, JobActivity>();
  for (let first = 0; first < endpoints.length; first += OF_A_QUERY) {
    const some = endpoints.slice(first, first + OF_A_QUERY);
    const variables = some.map((_, i) => `$id${i}: ID!`).join(', ');
    const isNeeded = some.some(({ kind }) => kind === 'QUEUE');
    const given = Object.fromEntries(some.map(({ id }, i) => [`id${i}`, id]));
    const found = await graphql<Record<string, JobActivity | readonly RouteActivity[]>, object>(
      `query (${isNeeded ? '$from: Float!, ' : ''}${variables}) { ${some.map(fieldOf).join(' ')} }`,
      { ...(isNeeded ? { from } : {}), ...given },
      signal,
    );
    for (const [i, { id }] of some.entries()) {
      const line = found[`e${i}`];
      if (line !== undefined) lines.set(id, lineOf(line));
    }
  }
  return lines;
}

export function useActivityLines(endpoints: readonly Listed[]): Lines | undefined {
  const wanted = endpoints.slice(0, MAX);
  const names = wanted.map(({ id }) => id).toSorted();
  return useLive(['activity-lines', names.join(' ')], (signal) => read(wanted, signal), POLL_MS).data;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function ActivityLine({ line, noun }: { line: JobActivity | undefined; noun: 'jobs' | 'requests' }): JSX.Element | null {
  if (line === undefined) return null;
  const failed = line.failed.map((count, i) => count + (line.timedOut[i] ?? 0));
  return (
    <Sparkline
      label={`${sum(line.submitted)} ${noun} in the last hour, ${sum(failed)} failed`}
      values={line.submitted.slice(0, line.submitted.length - line.openSteps)}
      errors={failed.slice(0, failed.length - line.openSteps)}
      steps={line.at.map((at, i) => `${minuteTime(at)}: ${line.submitted[i] ?? 0} ${noun}, ${failed[i] ?? 0} failed`)}
    />
  );
}
