import type { JSX } from 'preact';
import { Link, useLocation, useParams } from 'wouter-preact';

import { GET_JOB } from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { callEndpoint, graphql } from '../api/request.ts';
import { useWholeAccount, useWriteRefusal } from '../api/session.ts';
import { duration, time } from '../ui/format.ts';
import { ActionButton, Badge, ConfirmButton, CopyButton, Facts, Failure, Loaded, Mono, Page, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { KeyLink } from './fleet-names.tsx';
import { errorText } from './job-error.ts';
import { Payload } from './job-payload.tsx';
import { ENDED, readDeliveries, type Job } from './job-query.ts';
import { JobLogs } from './job-logs.tsx';
import { Timeline } from './job-timeline.tsx';

export function JobPage(): JSX.Element {
  const { endpoint, job: id } = useParams<{ endpoint: string; job: string }>();
  const query = useLive(['job', endpoint, id], (signal) => graphql(GET_JOB, { endpoint, id }, signal));
  const status = query.data?.job?.status;
  const hasWebhook = query.data?.job?.webhook != null && ENDED.has(status ?? '');
  const mayRead = useWriteRefusal() === undefined;
  // Keys for some endpoints only may not read them: then the timeline has no word about them.
  const deliveries = useLive(['job-webhooks', id, hasWebhook], (signal) =>
    hasWebhook && mayRead ? readDeliveries(id, signal) : Promise.resolve([]),
  );
  const coversAll = useWholeAccount();
  const hasLogs = status !== undefined && status !== 'IN_QUEUE';
  return (
    <Page title={`Job ${id.slice(0, 13)}…`}>
      <p>
        <Link href={`/endpoints/${encodeURIComponent(endpoint)}`}>{visible(query.data?.endpoint?.name ?? endpoint)}</Link>
      </p>
      <Loaded query={query}>
        {({ job, endpoint: of }) =>
          job === null ? (
            <p>This job does not exist (any more): results are kept for 30 minutes after /run, and for 1 minute after /runsync.</p>
          ) : (
            <>
              <Actions endpoint={endpoint} job={job} url={of?.url ?? ''} />
              <Overview job={job} />
              <Timeline job={job} of={of} deliveries={hasWebhook && mayRead ? deliveries.data : undefined} />
              <Payload title="Input" endpoint={endpoint} job={id} text={job.input} size={job.inputBytes} isDue={!ENDED.has(job.status)} />
              <Payload
                title={job.status === 'IN_PROGRESS' && job.output !== null ? 'Progress' : 'Output'}
                endpoint={endpoint}
                job={id}
                text={job.output}
                size={job.outputBytes}
                isDue={false}
              />
            </>
          )
        }
      </Loaded>
      {hasLogs && coversAll && <JobLogs endpoint={endpoint} job={id} isLive={!ENDED.has(status)} />}
    </Page>
  );
}

/** Largest input that a text field edits without delays. */
const MAX_EDITED_BYTES = 262_144;

function Actions({ endpoint, job, url }: { endpoint: string; job: Job; url: string }): JSX.Element {
  const refusal = useWriteRefusal();
  const change = useAction((verb: 'cancel' | 'retry') => callEndpoint(`${endpoint}/${verb}/${job.id}`, { method: 'POST' }));
  const [, navigate] = useLocation();
  const mayRetry = job.status === 'FAILED' || job.status === 'TIMED_OUT';
  return (
    <>
      <div class="actions">
        <ConfirmButton
          label="Cancel job"
          explain={<p>The job ends as CANCELLED. A running handler is told to stop, and stopped by force a second later.</p>}
          refusal={refusal ?? (ENDED.has(job.status) ? 'The job has ended.' : undefined)}
          isBusy={change.isPending}
          onConfirm={() => change.mutate('cancel')}
        />
        <ActionButton
          refusal={refusal ?? (mayRetry ? undefined : 'Only a failed or timed-out job can be tried again.')}
          isBusy={change.isPending}
          onClick={() => change.mutate('retry')}
        >
          Retry
        </ActionButton>
        {job.inputBytes === null ? (
          <ActionButton refusal="The input is not kept." onClick={() => undefined}>
            Copy as curl
          </ActionButton>
        ) : (
          <CopyButton label="Copy as curl" text={curlOf(job, url)} />
        )}
        {job.inputBytes === null || job.inputBytes > MAX_EDITED_BYTES ? (
          <ActionButton
            refusal={job.inputBytes === null ? 'The input is not kept.' : 'The input is too large to edit.'}
            onClick={() => undefined}
          >
            Edit and run again
          </ActionButton>
        ) : (
          <ActionButton
            refusal={refusal}
            onClick={() => navigate(`/endpoints/${encodeURIComponent(endpoint)}/test?job=${encodeURIComponent(job.id)}`)}
          >
            Edit and run again
          </ActionButton>
        )}
        <CopyButton label="Copy ID" text={job.id} />
      </div>
      <Failure error={change.error} />
    </>
  );
}

const AUTHORIZATION = '-H "Authorization: Bearer $SERVICE_API_KEY"';

/** The same input again, a large one read from the job itself; the key stays a variable of the shell. */
function curlOf({ id, input, isSync }: Job, url: string): string {
  const call = `curl -s ${url}/${isSync ? 'runsync' : 'run'} ${AUTHORIZATION} -H 'Content-Type: application/json'`;
  if (input === null)
    return `{ printf '{"input":'; curl -s ${url}/jobs/${id}/input ${AUTHORIZATION}; printf '}'; } | ${call} --data-binary @-`;
  return `${call} -d '${`{"input":${input}}`.replaceAll("'", String.raw`'\''`)}'`;
}

function Overview({ job }: { job: Job }): JSX.Element {
  return (
    <div class="panel">
      <Facts
        of={[
          ['Status', <Badge state={job.status} key="s" />],
          ['ID', <Mono of={job.id} key="i" />],
          ['Attempts', String(job.attempts)],
          ['Waited', duration(job.delayTime ?? undefined)],
          ['Ran', duration(job.executionTime ?? undefined)],
          ['Time limit', duration(job.executionTimeout)],
          ['Kept until', time(job.deleteAt)],
          ...(job.lowPriority ? ([['Priority', 'low']] as const) : []),
          ...(job.webhook === null ? [] : ([['Webhook', <Text of={job.webhook} key="w" />]] as const)),
          ...(job.tags.length === 0 ? [] : ([['Tags', <Text of={job.tags.join(', ')} key="g" />]] as const)),
          ...(job.submittedBy === null ? [] : ([['Submitted by key', <KeyLink id={job.submittedBy} key="k" />]] as const)),
          ...(job.traceId === null ? [] : ([['Trace', <Mono of={job.traceId} key="t" />]] as const)),
        ]}
      />
      {job.error !== null && (
        <div class="failure">
          <pre tabIndex={0}>
            <Text of={errorText(job.error)} />
          </pre>
        </div>
      )}
    </div>
  );
}
