import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import {
  COUNT_JOBS,
  LIST_BULK_OPERATIONS,
  START_BULK_OPERATION,
  STOP_BULK_OPERATION,
  type BulkAction as Action,
  type JobCount,
  type JobFilter,
  type JobStatus,
} from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { time } from '../../ui/format.ts';
import { ActionButton, Badge, ConfirmButton, Failure, Text } from '../../ui/parts.tsx';

export type { JobFilter };

interface Kind {
  readonly label: string;
  /** Statuses of the jobs that it changes. */
  readonly of: readonly JobStatus[];
  readonly does: string;
  readonly doing: string;
}

const KINDS: Readonly<Record<Action, Kind>> = {
  RETRY: { label: 'Retry matching', of: ['FAILED', 'TIMED_OUT'], does: 'failed or timed-out jobs return to the queue.', doing: 'Retry' },
  CANCEL: { label: 'Cancel matching', of: ['IN_QUEUE', 'IN_PROGRESS'], does: 'queued or running jobs end as CANCELLED.', doing: 'Cancel' },
  PURGE: { label: 'Purge matching', of: ['IN_QUEUE'], does: 'queued jobs end as CANCELLED. Running jobs continue.', doing: 'Purge' },
};
const ACTIONS: readonly Action[] = ['RETRY', 'CANCEL', 'PURGE'];
/** How often a running operation is looked at, ms. */
const POLL_MS = 1_000;

/** Changes all jobs that the filter admits, after saying how many, and shows how far that is. */
export function BulkOperations({ endpoint, filter }: { endpoint: string; filter: JobFilter }): JSX.Element | null {
  const writeRefusal = useWriteRefusal();
  // Listing them needs a key that may change jobs.
  if (writeRefusal !== undefined) return null;
  return (
    <>
      <div class="actions" role="group" aria-label="All jobs that match">
        {ACTIONS.map((action) => (
          <BulkButton key={action} endpoint={endpoint} action={action} filter={filter} />
        ))}
      </div>
      <Progress endpoint={endpoint} />
    </>
  );
}

interface BulkButtonProps {
  readonly endpoint: string;
  readonly action: Action;
  readonly filter: JobFilter;
  readonly label?: string;
}

/** Starts one operation, after its count was confirmed. */
export function BulkButton({ endpoint, action, filter, label = KINDS[action].label }: BulkButtonProps): JSX.Element {
  const { of, does } = KINDS[action];
  const [counted, setCounted] = useState<JobCount | Error>();
  const start = useAction(() => graphql(START_BULK_OPERATION, { endpoint, action, filter }));
  const [status] = filter.status ?? [];
  const refusal = status !== undefined && !of.includes(status) ? `${label} concerns jobs that are ${of.join(' or ')}.` : undefined;
  const count = (): void => {
    setCounted(undefined);
    graphql(COUNT_JOBS, { endpoint, action, filter }).then(
      ({ countJobs }) => setCounted(countJobs),
      (error: unknown) => setCounted(error instanceof Error ? error : new Error(String(error))),
    );
  };
  return (
    <>
      <ConfirmButton
        label={label}
        explain={
          counted === undefined ? (
            <p>Counting…</p>
          ) : counted instanceof Error ? (
            <Failure error={counted} />
          ) : (
            <p>
              {counted.incomplete ? 'At least ' : ''}
              {counted.count} {does} It goes on in the background.
            </p>
          )
        }
        refusal={refusal}
        isBusy={start.isPending}
        isReady={counted !== undefined && !(counted instanceof Error) && counted.count > 0}
        onOpen={count}
        onConfirm={() => start.mutate(undefined)}
      />
      <Failure error={start.error} />
    </>
  );
}

function Progress({ endpoint }: { endpoint: string }): JSX.Element | null {
  const query = useLive(['bulk', endpoint], (signal) => graphql(LIST_BULK_OPERATIONS, { endpoint }, signal), POLL_MS);
  const stop = useAction((id: string) => graphql(STOP_BULK_OPERATION, { id }));
  const [last, ...others] = query.data?.bulkOperations ?? [];
  const running = others.filter(({ state }) => state === 'RUNNING');
  if (last === undefined) return null;
  return (
    <ul class="plain" role="status" aria-label="Operations on many jobs">
      {[last, ...running].map((each) => (
        <li key={each.id}>
          {KINDS[each.action].doing} <Badge state={each.state} /> {each.changed} changed
          {each.skipped > 0 && `, ${each.skipped} had changed by themselves`}, {each.examined} examined, since {time(each.startedAt)}{' '}
          {each.error !== null && <Text of={each.error} />}
          {each.state === 'RUNNING' && (
            <ActionButton isBusy={stop.isPending} onClick={() => stop.mutate(each.id)}>
              Stop
            </ActionButton>
          )}
        </li>
      ))}
    </ul>
  );
}
