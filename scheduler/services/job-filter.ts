/** Which jobs of an endpoint a filter admits. */
import { CapstanError } from '../../lib/errors.ts';
import { KEY_ID } from '../../lib/key-id.ts';
import { asBuffer } from '../../lib/payload.ts';
import { TAG, TAG_RULE, tagsOf } from '../../lib/job-tags.ts';
import type { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { publicState } from '../core/jobs/views.ts';
import type { Engine } from '../engine/engine.ts';
import type { JobRow } from '../core/ports/store.ts';

const MAX_TEXT = 1_000;

export interface JobFilter {
  /** Of the submission or last retry, wall clock ms: inclusive and exclusive. */
  readonly since: number;
  readonly until: number;
  /** None means all. */
  readonly states: ReadonlySet<JobState>;
  /** In lower case; empty means all. */
  readonly text: string;
  /** One of the job's tags; empty means all. */
  readonly tag: string;
  /** Id of the API key that submitted it; empty means all. */
  readonly submittedBy: string;
}

/** A filter as callers send it; 0 and empty mean none. */
export interface FilterRequest {
  readonly states: readonly JobState[];
  readonly sinceMs: bigint;
  readonly untilMs: bigint;
  readonly text: string;
  readonly tag?: string | undefined;
  readonly submittedBy?: string | undefined;
}

/** @throws CapstanError INVALID_ARGUMENT */
export function checkedFilter({ states, sinceMs, untilMs, text, tag = '', submittedBy = '' }: FilterRequest): JobFilter {
  if (text.length > MAX_TEXT) throw new CapstanError('INVALID_ARGUMENT', `text: must be at most ${MAX_TEXT} characters`, { field: 'text' });
  if (tag !== '' && !TAG.test(tag)) throw new CapstanError('INVALID_ARGUMENT', `tag: ${TAG_RULE}`, { field: 'tag' });
  if (submittedBy !== '' && !KEY_ID.test(submittedBy))
    throw new CapstanError('INVALID_ARGUMENT', 'submittedBy: must be the id of an API key, 12 hexadecimal digits', {
      field: 'submittedBy',
    });
  return {
    since: Number(sinceMs),
    until: untilMs === 0n ? Number.MAX_SAFE_INTEGER : Number(untilMs),
    states: new Set(states),
    text: text.toLowerCase(),
    tag,
    submittedBy,
  };
}

/** Returns those of the jobs that the filter admits. Text is looked for in the id, the error and an input that is small. */
export async function admitted(engine: Engine, jobs: readonly JobRow[], filter: JobFilter): Promise<ReadonlySet<JobRow>> {
  const wanted = jobs.filter((job) => isWanted(job, filter));
  const { text } = filter;
  if (text === '') return new Set(wanted);
  const found = new Set(wanted.filter(({ id, error }) => id.toLowerCase().includes(text) || error?.toLowerCase().includes(text) === true));
  const others = new Map(wanted.filter((job) => !found.has(job)).map((job) => [job.seq, job]));
  if (others.size === 0) return found;
  for (const { seq, input } of await engine.search('inputs', [...others.keys()])) {
    const job = others.get(seq);
    if (job !== undefined && 'inline' in input && asBuffer(input.inline).toString('utf8').toLowerCase().includes(text)) found.add(job);
  }
  return found;
}

function isWanted(job: JobRow, { since, until, states, tag, submittedBy }: JobFilter): boolean {
  if (job.submittedAt < since || job.submittedAt >= until) return false;
  if (states.size > 0 && !states.has(publicState(job))) return false;
  if (submittedBy !== '' && job.submittedBy !== submittedBy) return false;
  return tag === '' || tagsOf(job.tags ?? '').includes(tag);
}
