import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { SEARCH_JOBS, type JobRow, type JobStatus, type SearchJobsResult } from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { callEndpoint, graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { duration, time } from '../../ui/format.ts';
import { Badge, ConfirmButton, Failure, Loaded, SinceTime, Table, Text, type Column } from '../../ui/parts.tsx';
import { PAGE, usePages, useUrlState } from '../../ui/url-state.ts';
import { KeyLink, NodeLink, WorkerLink } from '../fleet-names.tsx';
import { errorMessage } from '../job-error.ts';
import { BulkOperations, type JobFilter } from './bulk.tsx';
import { Selection } from './job-selection.tsx';
import { FailureGroups, StateTabs, useDelayed, useSummary } from './job-summary.tsx';

interface Search {
  readonly endpoint: string;
  readonly filter: JobFilter;
  readonly cursor: string | null;
}

/** Searches that one press of a button stands for, while they find nothing. */
const SEARCHES = 10;

/** Reads a page. The first one is read again with each change: only later ones search on by themselves. */
async function search(asked: Search, signal: AbortSignal): Promise<SearchJobsResult> {
  let found = await graphql(SEARCH_JOBS, asked, signal);
  for (let n = 1; n < SEARCHES && asked.cursor !== null; n++) {
    const { jobs, cursor, incomplete } = found.jobs;
    if (jobs.length > 0 || !incomplete || cursor === null) break;
    found = await graphql(SEARCH_JOBS, { ...asked, cursor }, signal);
  }
  return found;
}

const COLUMNS = ['age', 'worker', 'node', 'key', 'tags', 'attempts'] as const;
const DEFAULTS = { status: '', text: '', tag: '', since: '', until: '', columns: 'age,tags,attempts', [PAGE]: '' };

/** Jobs, newest first; each page begins where the one before ended. */
export function Jobs({ endpoint }: { endpoint: string }): JSX.Element {
  const [values, set] = useUrlState(DEFAULTS);
  const { status, since, until } = values;
  const [text, tag] = [values.text.trim(), values.tag.trim()];
  const { after: cursor, newer, older } = usePages();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const ofAll: JobFilter = {
    ...(text === '' ? {} : { text }),
    ...(tag === '' ? {} : { tag }),
    ...(Number(since) > 0 ? { sinceMs: Number(since) } : {}),
    ...(Number(until) > 0 ? { untilMs: Number(until) } : {}),
  };
  // The gateway refuses what an address names and no job has.
  const filter: JobFilter = { ...(status === '' ? {} : { status: [status as JobStatus] }), ...ofAll };
  const query = useLive(
    ['jobs', endpoint, filter, cursor],
    (signal) => search({ endpoint, filter, cursor }, signal),
    cursor === null ? undefined : false,
  );
  const summary = useSummary(endpoint, useDelayed(ofAll)).data?.jobSummary;
  const change: typeof set = (changes, how) => set({ ...changes, [PAGE]: '' }, how);
  const columns = new Set(values.columns.split(','));
  const hrefOf = (changes: Readonly<Record<string, string>>): string => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries({ ...changes, [PAGE]: '' })) {
      if (value === '') next.delete(name);
      else next.set(name, value);
    }
    return `/endpoints/${encodeURIComponent(endpoint)}/jobs${next.size === 0 ? '' : `?${next.toString()}`}`;
  };
  return (
    <>
      <StateTabs current={status} summary={summary} hrefOf={(state) => hrefOf({ status: state })} />
      <div class="fields">
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
        <TimeField id="job-since" label="Since" value={since} onChange={(value) => change({ since: value }, 'replace')} />
        <TimeField id="job-until" label="Before" value={until} onChange={(value) => change({ until: value }, 'replace')} />
        <details class="columns">
          <summary>Columns</summary>
          {COLUMNS.map((name) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={columns.has(name)}
                onChange={({ currentTarget: { checked } }) =>
                  set({ columns: COLUMNS.filter((each) => (each === name ? checked : columns.has(each))).join(',') }, 'replace')
                }
              />{' '}
              {name}
            </label>
          ))}
        </details>
        <PurgeButton endpoint={endpoint} />
      </div>
      <FailureGroups endpoint={endpoint} filter={ofAll} summary={summary} hrefOf={(error) => hrefOf({ text: error, status: '' })} />
      <BulkOperations endpoint={endpoint} filter={filter} />
      <Loaded query={query}>
        {({ jobs: page }) => (
          <>
            {page.jobs.length > 0 && (
              <div class="actions">
                <button type="button" onClick={() => setSelected(new Set(page.jobs.map(({ id }) => id)))}>
                  Select all {page.jobs.length} of this page
                </button>
              </div>
            )}
            <Selection endpoint={endpoint} jobs={page.jobs.filter(({ id }) => selected.has(id))} onDone={() => setSelected(new Set())} />
            <Table
              label="Jobs"
              rows={page.jobs}
              id={({ id }) => id}
              empty={page.incomplete ? 'None among those looked at so far.' : 'No jobs.'}
              columns={[
                {
                  title: 'Select',
                  cell: ({ id }) => (
                    <input
                      type="checkbox"
                      aria-label={`Select ${id}`}
                      checked={selected.has(id)}
                      onChange={({ currentTarget: { checked } }) =>
                        setSelected((before) => new Set(checked ? [...before, id] : [...before].filter((each) => each !== id)))
                      }
                    />
                  ),
                },
                { title: 'Status', cell: ({ status: state }) => <Badge state={state} /> },
                {
                  title: 'ID',
                  isId: true,
                  cell: ({ id }) => <Link href={`/endpoints/${encodeURIComponent(endpoint)}/jobs/${encodeURIComponent(id)}`}>{id}</Link>,
                },
                { title: 'Submitted', isId: true, cell: ({ submittedAt }) => time(submittedAt) },
                { title: 'Waited', isNumber: true, cell: ({ delayTime }) => duration(delayTime ?? undefined) },
                { title: 'Ran', isNumber: true, cell: ({ executionTime }) => duration(executionTime ?? undefined) },
                ...optional.filter(({ name }) => columns.has(name)),
                {
                  title: 'Why',
                  isLong: true,
                  cell: ({ error, queueReason }) => <Text of={shortened(errorMessage(error) ?? queueReason ?? '')} />,
                },
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

/** Columns that may be left out. */
const optional: readonly (Column<JobRow> & { readonly name: (typeof COLUMNS)[number] })[] = [
  { name: 'age', title: 'Age', isId: true, cell: ({ submittedAt }) => <SinceTime at={submittedAt} /> },
  { name: 'attempts', title: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
  {
    name: 'worker',
    title: 'Worker',
    isId: true,
    cell: ({ endpoint, worker }) => (worker === null ? '–' : <WorkerLink endpoint={endpoint} id={worker} />),
  },
  { name: 'node', title: 'Node', cell: ({ node }) => <NodeLink id={node} /> },
  { name: 'key', title: 'Submitted by', cell: ({ submittedBy }) => (submittedBy === null ? '–' : <KeyLink id={submittedBy} />) },
  { name: 'tags', title: 'Tags', cell: ({ tags }) => <Text of={tags.join(', ')} /> },
];

interface TimeFieldProps {
  readonly id: string;
  readonly label: string;
  /** ms since 1970; empty for none. */
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A field for a local time; the address has it as ms since 1970. What is typed stays as it is while it is incomplete. */
function TimeField({ id, label, value, onChange }: TimeFieldProps): JSX.Element {
  const [typed, setTyped] = useState({ local: '', value: '' });
  const changed = (local: string): void => {
    const at = new Date(local).getTime();
    const next = at > 0 ? String(at) : '';
    setTyped({ local, value: next });
    onChange(next);
  };
  const shown = typed.value === value && typed.local !== '' ? typed.local : localTime(Number(value));
  return (
    <div>
      <label for={id}>{label}</label>
      <input id={id} type="datetime-local" value={shown} onChange={(event) => changed(event.currentTarget.value)} />
    </div>
  );
}

/** The value of a field for date and time; empty for no time. */
function localTime(ms: number): string {
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS);
  return ms > 0 && !Number.isNaN(at.getTime()) ? at.toISOString().slice(0, 'YYYY-MM-DDTHH:MM'.length) : '';
}

const MINUTE_MS = 60_000;
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
