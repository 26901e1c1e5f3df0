import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { useAction, useLive } from '../../api/live.ts';
import { callEndpoint, graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { duration, time } from '../../ui/format.ts';
import { Badge, ConfirmButton, Failure, Loaded, Table, Text } from '../../ui/parts.tsx';
import { PAGE, usePages, useUrlState } from '../../ui/url-state.ts';
import { BulkOperations, type JobFilter } from './bulk.tsx';

interface Row {
  readonly id: string;
  readonly status: string;
  readonly submittedAt: string;
  readonly delayTime: number | null;
  readonly executionTime: number | null;
  readonly attempts: number;
  readonly error: string | null;
  readonly queueReason: string | null;
  readonly tags: readonly string[];
}

interface Found {
  readonly jobs: { readonly jobs: readonly Row[]; readonly cursor: string | null; readonly incomplete: boolean };
}

const QUERY = `query ($endpoint: ID!, $filter: JobFilter, $cursor: String) {
  jobs(endpoint: $endpoint, filter: $filter, limit: 50, cursor: $cursor) {
    jobs { id status submittedAt delayTime executionTime attempts error queueReason tags } cursor incomplete
  }
}`;

interface Search {
  readonly endpoint: string;
  readonly filter: JobFilter;
  readonly cursor: string | null;
}

/** Searches that one press of a button stands for, while they find nothing. */
const SEARCHES = 10;

/** Reads a page. The first one is read again with each change: only later ones search on by themselves. */
async function search(asked: Search, signal: AbortSignal): Promise<Found> {
  let found = await graphql<Found>(QUERY, { ...asked }, signal);
  for (let n = 1; n < SEARCHES && asked.cursor !== null; n++) {
    const { jobs, cursor, incomplete } = found.jobs;
    if (jobs.length > 0 || !incomplete || cursor === null) break;
    found = await graphql<Found>(QUERY, { ...asked, cursor }, signal);
  }
  return found;
}

const STATES = ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'TIMED_OUT', 'CANCELLED'];

/** Jobs, newest first; each page begins where the one before ended. */
export function Jobs({ endpoint }: { endpoint: string }): JSX.Element {
  const [values, set] = useUrlState({ status: '', text: '', tag: '', since: '', until: '', [PAGE]: '' });
  const { status, since, until } = values;
  const [text, tag] = [values.text.trim(), values.tag.trim()];
  const { after: cursor, newer, older } = usePages();
  const filter = {
    ...(status === '' ? {} : { status: [status] }),
    ...(text === '' ? {} : { text }),
    ...(tag === '' ? {} : { tag }),
    ...timeFilter('sinceMs', since),
    ...timeFilter('untilMs', until),
  };
  const query = useLive(
    ['jobs', endpoint, filter, cursor],
    (signal) => search({ endpoint, filter, cursor }, signal),
    cursor === null ? undefined : false,
  );
  const change: typeof set = (changes, how) => set({ ...changes, [PAGE]: '' }, how);
  return (
    <>
      <div class="fields">
        <div>
          <label for="job-status">Status</label>
          <select id="job-status" value={status} onChange={(event) => change({ status: event.currentTarget.value })}>
            <option value="">all</option>
            {STATES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        <div>
          <label for="job-text">ID, or text in input or error</label>
          <input
            id="job-text"
            type="search"
            value={values.text}
            onChange={(event) => change({ text: event.currentTarget.value }, 'replace')}
          />
        </div>
        <div>
          <label for="job-tag">Tag</label>
          <input
            id="job-tag"
            type="search"
            value={values.tag}
            onChange={(event) => change({ tag: event.currentTarget.value }, 'replace')}
          />
        </div>
        <div>
          <label for="job-since">Since</label>
          <input
            id="job-since"
            type="datetime-local"
            value={since}
            onChange={(event) => change({ since: event.currentTarget.value }, 'replace')}
          />
        </div>
        <div>
          <label for="job-until">Before</label>
          <input
            id="job-until"
            type="datetime-local"
            value={until}
            onChange={(event) => change({ until: event.currentTarget.value }, 'replace')}
          />
        </div>
        <PurgeButton endpoint={endpoint} />
      </div>
      <BulkOperations endpoint={endpoint} filter={filter} />
      <Loaded query={query}>
        {({ jobs: page }) => (
          <>
            <Table
              label="Jobs"
              rows={page.jobs}
              id={({ id }) => id}
              empty={page.incomplete ? 'None among those looked at so far.' : 'No jobs.'}
              columns={[
                { title: 'Status', cell: ({ status: state }) => <Badge state={state} /> },
                {
                  title: 'ID',
                  isId: true,
                  cell: ({ id }) => <Link href={`/endpoints/${encodeURIComponent(endpoint)}/jobs/${encodeURIComponent(id)}`}>{id}</Link>,
                },
                { title: 'Submitted', cell: ({ submittedAt }) => time(submittedAt) },
                { title: 'Waited', isNumber: true, cell: ({ delayTime }) => duration(delayTime ?? undefined) },
                { title: 'Ran', isNumber: true, cell: ({ executionTime }) => duration(executionTime ?? undefined) },
                { title: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
                { title: 'Tags', cell: ({ tags }) => <Text of={tags.join(', ')} /> },
                { title: 'Why', cell: ({ error, queueReason }) => <Text of={shortened(error ?? queueReason ?? '')} /> },
              ]}
            />
            <div class="actions">
              <button type="button" disabled={cursor === null} onClick={newer}>
                Newer
              </button>
              <button type="button" disabled={page.cursor === null} onClick={() => page.cursor !== null && older(page.cursor)}>
                {page.incomplete ? 'Search on' : 'Older'}
              </button>
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

/** `local`: the value of a field for date and time, empty for none. */
function timeFilter<Name extends string>(name: Name, local: string): { readonly [key in Name]?: number } {
  const at = new Date(local).getTime();
  return (Number.isNaN(at) ? {} : { [name]: at }) as { readonly [key in Name]?: number };
}

const MAX_SHOWN = 120;

function shortened(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

function PurgeButton({ endpoint }: { endpoint: string }): JSX.Element {
  const refusal = useWriteRefusal();
  const health = useLive(['health', endpoint], (signal) => callEndpoint<{ jobs: { inQueue: number } }>(`${endpoint}/health`, { signal }));
  const count = health.data?.jobs.inQueue ?? 0;
  const purge = useAction(() => callEndpoint<{ removed: number }>(`${endpoint}/purge-queue`, { method: 'POST' }));
  return (
    <div>
      <ConfirmButton
        label="Purge queue"
        explain={<p>{count} waiting jobs end as CANCELLED. Running jobs continue.</p>}
        refusal={refusal ?? (count === 0 ? 'No job waits.' : undefined)}
        isBusy={purge.isPending}
        onConfirm={() => purge.mutate(undefined)}
      />
      {purge.data !== undefined && <span role="status">{purge.data.removed} jobs cancelled.</span>}
      <Failure error={purge.error} />
    </div>
  );
}
