import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Link, useParams } from 'wouter-preact';

import { useAction, useLive } from '../api/live.ts';
import { callEndpoint, graphql } from '../api/request.ts';
import { useSession, useWriteRefusal } from '../api/session.ts';
import { bytes, duration, time } from '../ui/format.ts';
import { JsonDocument } from '../ui/json.tsx';
import { ActionButton, Badge, ConfirmButton, CopyButton, Facts, Failure, Loaded, Mono, Page, Section, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { LogLines, type LogLine } from './log-lines.tsx';

interface Job {
  readonly id: string;
  readonly status: string;
  readonly isSync: boolean;
  readonly lowPriority: boolean;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly deleteAt: string;
  readonly delayTime: number | null;
  readonly executionTime: number | null;
  readonly attempts: number;
  readonly executionTimeout: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly queueReason: string | null;
  readonly error: string | null;
  readonly webhook: string | null;
  readonly input: string | null;
  readonly inputBytes: number | null;
  readonly output: string | null;
  readonly outputBytes: number | null;
}

interface Worker {
  readonly id: string;
  readonly node: string;
  readonly state: string;
  readonly decision: string;
  readonly start: { readonly artifactMs: number; readonly startedMs: number; readonly loadedMs: number };
}

interface Answer {
  readonly job: Job | null;
  readonly endpoint: {
    readonly name: string;
    readonly url: string;
    readonly queue: { readonly reason: string | null; readonly detail: string | null };
    readonly scaling: {
      readonly workers: readonly Worker[];
      readonly rejections: readonly {
        readonly reason: string;
        readonly examples: readonly { readonly node: string; readonly detail: string }[];
      }[];
    } | null;
  } | null;
}

const QUERY = `query ($endpoint: ID!, $id: ID!) {
  job(endpoint: $endpoint, id: $id) {
    id status isSync lowPriority submittedAt startedAt endedAt deleteAt delayTime executionTime attempts executionTimeout
    worker node queueReason error webhook input inputBytes output outputBytes
  }
  endpoint(id: $endpoint) {
    name url queue { reason detail }
    scaling { workers { id node state decision start { artifactMs startedMs loadedMs } } rejections { reason examples { node detail } } }
  }
}`;

const LOGS = `query ($endpoint: ID!, $job: ID!) {
  searchLogs(endpoint: $endpoint, filter: { job: $job }, limit: 200) { lines { at worker stream level text job } cursor }
}`;

const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

export function JobPage(): JSX.Element {
  const { endpoint, job: id } = useParams<{ endpoint: string; job: string }>();
  const query = useLive(['job', endpoint, id], (signal) => graphql<Answer>(QUERY, { endpoint, id }, signal));
  const status = query.data?.job?.status;
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
              <Timeline job={job} of={of} />
              <Payload title="Input" name={`${id}-input.json`} text={job.input} size={job.inputBytes} isDue={!ENDED.has(job.status)} />
              <Payload title="Output" name={`${id}-output.json`} text={job.output} size={job.outputBytes} isDue={false} />
            </>
          )
        }
      </Loaded>
      {hasLogs && <JobLogs endpoint={endpoint} job={id} isLive={!ENDED.has(status)} />}
    </Page>
  );
}

function Actions({ endpoint, job, url }: { endpoint: string; job: Job; url: string }): JSX.Element {
  const refusal = useWriteRefusal();
  const change = useAction((verb: 'cancel' | 'retry') => callEndpoint(`${endpoint}/${verb}/${job.id}`, { method: 'POST' }));
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
        <CopyButton label="Copy as curl" text={curlOf(job, url)} />
        <CopyButton label="Copy ID" text={job.id} />
      </div>
      <Failure error={change.error} />
    </>
  );
}

/** The same input again; the key stays a variable of the shell. */
function curlOf({ input, isSync }: Job, url: string): string {
  const body = `{"input":${input ?? '{}'}}`.replaceAll("'", String.raw`'\''`);
  return `curl -s ${url}/${isSync ? 'runsync' : 'run'} -H "Authorization: Bearer $SERVICE_API_KEY" -H 'Content-Type: application/json' -d '${body}'`;
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

/** Handlers' errors are JSON with a trace in it. */
function errorText(error: string): string {
  try {
    const parsed = JSON.parse(error) as unknown;
    if (typeof parsed === 'object' && parsed !== null && 'error_message' in parsed) {
      const { error_message: message, error_traceback: trace } = parsed as Record<string, unknown>;
      return [message, trace].filter((each) => typeof each === 'string').join('\n\n');
    }
  } catch {
    // Plain text.
  }
  return error;
}

function Timeline({ job, of }: { job: Job; of: Answer['endpoint'] }): JSX.Element {
  const worker = of?.scaling?.workers.find(({ id }) => id === job.worker);
  const steps: { readonly at: string; readonly what: string; readonly detail?: string | undefined }[] = [
    { at: job.submittedAt, what: job.attempts > 1 ? 'Submitted, or tried again' : 'Submitted' },
  ];
  if (job.status === 'IN_QUEUE') {
    const examples = (of?.scaling?.rejections ?? []).flatMap(({ reason, examples: nodes }) =>
      nodes.map(({ node, detail }) => `${node}: ${reason} (${detail})`),
    );
    steps.push({
      at: '',
      what: `Waiting: ${job.queueReason ?? 'for a worker'}`,
      detail: [of?.queue.detail ?? '', ...examples].filter((each) => each !== '').join('\n'),
    });
  }
  const startedAt = job.startedAt ?? (job.delayTime === null ? null : new Date(Date.parse(job.submittedAt) + job.delayTime).toISOString());
  if (startedAt !== null) {
    const { artifactMs = 0, startedMs = 0, loadedMs = 0 } = worker?.start ?? {};
    const phases =
      loadedMs > 0
        ? `The worker was ready ${duration(loadedMs)} after it was asked for: files ${duration(artifactMs)}, process ${duration(startedMs)}.`
        : '';
    steps.push({
      at: startedAt,
      what: `Attempt ${job.attempts} on worker ${job.worker ?? ''}${job.node === null ? '' : ` of ${job.node}`}`,
      detail: phases,
    });
  }
  if (job.endedAt !== null) steps.push({ at: job.endedAt, what: job.status });
  return (
    <Section title="Timeline">
      <ol class="timeline">
        {steps.map(({ at, what, detail = '' }) => (
          <li key={what}>
            <time>
              {at === '' ? 'now' : at === job.submittedAt ? time(at) : `+ ${duration(Date.parse(at) - Date.parse(job.submittedAt))}`}
            </time>
            <span>
              <Text of={what} />
              {detail !== '' && (
                <pre class="muted">
                  <Text of={detail} />
                </pre>
              )}
            </span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

interface PayloadProps {
  readonly title: string;
  readonly name: string;
  readonly text: string | null;
  readonly size: number | null;
  /** It must be there. */
  readonly isDue: boolean;
}

function Payload({ title, name, text, size, isDue }: PayloadProps): JSX.Element {
  const { hidePayloads } = useSession();
  const [isShown, setShown] = useState(!hidePayloads);
  if (text === null) {
    const why =
      size === null
        ? isDue
          ? 'Not known.'
          : 'None, or not kept.'
        : `${bytes(size)}: too large to show. Read it with the status of the job.`;
    return (
      <Section title={title}>
        <p class="muted">{why}</p>
      </Section>
    );
  }
  return (
    <Section title={title}>
      {isShown ? (
        <JsonDocument text={text} name={name} />
      ) : (
        <button type="button" onClick={() => setShown(true)}>
          Show {title.toLowerCase()} ({bytes(size ?? text.length)})
        </button>
      )}
    </Section>
  );
}

function JobLogs({ endpoint, job, isLive }: { endpoint: string; job: string; isLive: boolean }): JSX.Element {
  const query = useLive(
    ['job-logs', endpoint, job],
    (signal) => graphql<{ searchLogs: { lines: readonly LogLine[]; cursor: string | null } }>(LOGS, { endpoint, job }, signal),
    isLive ? undefined : false,
  );
  return (
    <Section title="Log">
      <Loaded query={query}>
        {({ searchLogs: { lines } }) =>
          lines.length === 0 ? <p class="muted">The job has printed nothing.</p> : <LogLines lines={lines} />
        }
      </Loaded>
    </Section>
  );
}
