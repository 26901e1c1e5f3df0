/** How many jobs there are by state, and which errors the failed ones have. */
import type { UseQueryResult } from '@tanstack/react-query';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { SUMMARIZE_JOBS, type JobStatus, type Summary } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { useCurrentInView } from '../../ui/in-view.ts';
import { Section, Text } from '../../ui/parts.tsx';
import { BulkButton, type JobFilter } from './bulk.tsx';

/** A summary examines many jobs: it is not read with each change, ms. */
const POLL_MS = 30_000;
/** Nor with each key that is pressed, ms. */
const DELAY_MS = 400;

/** Returns the filter as it was when it last stayed the same for a while. */
export function useDelayed(filter: JobFilter): JobFilter {
  const [delayed, setDelayed] = useState(filter);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(filter), DELAY_MS);
    return () => clearTimeout(timer);
  }, [JSON.stringify(filter)]);
  return delayed;
}

export function useSummary(endpoint: string, filter: JobFilter): UseQueryResult<{ jobSummary: Summary }> {
  return useLive(['job-summary', endpoint, filter], (signal) => graphql(SUMMARIZE_JOBS, { endpoint, filter }, signal), POLL_MS);
}

const STATES: readonly JobStatus[] = ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'TIMED_OUT', 'CANCELLED'];

interface TabsProps {
  /** Empty for all. */
  readonly current: string;
  readonly summary: Summary | undefined;
  /** The address of the list of jobs in a state. */
  readonly hrefOf: (status: string) => string;
}

/** The states as tabs with their counts. */
export function StateTabs({ current, summary, hrefOf }: TabsProps): JSX.Element {
  const list = useCurrentInView(current);
  const counts = new Map(summary?.states.map(({ status, count, incomplete }) => [status, `${count}${incomplete ? '+' : ''}`]));
  return (
    <nav class="tabs" aria-label="Status" ref={list}>
      {(['', ...STATES] as const).map((status) => (
        <Link key={status} href={hrefOf(status)} aria-current={status === current ? 'page' : undefined}>
          {status === '' ? 'All' : status.toLowerCase().replace('_', ' ')}
          {status !== '' && counts.has(status) && <span class="count">{counts.get(status)}</span>}
        </Link>
      ))}
    </nav>
  );
}

interface GroupsProps {
  readonly endpoint: string;
  readonly filter: JobFilter;
  readonly summary: Summary | undefined;
  readonly hrefOf: (text: string) => string;
}

const SHOWN = 5;

/** Failed jobs by their error: each group can be listed and retried. */
export function FailureGroups({ endpoint, filter, summary, hrefOf }: GroupsProps): JSX.Element | null {
  const mayWrite = useWriteRefusal() === undefined;
  const groups = summary?.errors ?? [];
  if (groups.length === 0) return null;
  const row = ({ text, message, isCut, count }: Summary['errors'][number]): JSX.Element => (
    <li key={text} class="failure-group">
      <Link href={hrefOf(text)}>
        {count} × <Text of={message === '' ? 'no message' : `${message}${isCut ? '…' : ''}`} />
      </Link>
      {mayWrite && (
        <BulkButton endpoint={endpoint} action="RETRY" label="Retry these" filter={{ ...filter, status: ['FAILED', 'TIMED_OUT'], text }} />
      )}
    </li>
  );
  return (
    <Section title="Failures by error">
      <ul class="plain">{groups.slice(0, SHOWN).map(row)}</ul>
      {groups.length > SHOWN && (
        <details>
          <summary>{groups.length - SHOWN} more</summary>
          <ul class="plain">{groups.slice(SHOWN).map(row)}</ul>
        </details>
      )}
    </Section>
  );
}
