import { CapstanError } from '../../lib/errors.ts';
import { stringifyExact } from '../../lib/exact-json.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { GET_JOB_STORY } from '../../client/graphql/gen/operations.ts';
import { QueueApi, type JobPage, type JobStatus } from '../../client/queue-api.ts';
import { printResult, type ArgumentSpec, type Command, type CommandGroup, type Invocation } from '../command/command.ts';
import { flagOption, textOption, type OptionSpec } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect, gatewayOf } from '../../client/gateway.ts';
import { timelineOf } from '../api/job-timeline.ts';
import { ageOf } from '../../terminal/age.ts';

const endpointArgument: ArgumentSpec = { name: 'endpoint', description: 'id or name' };
const environmentOption: OptionSpec = { flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' };
const jobArgument: ArgumentSpec = { name: 'job', description: 'id of the job' };
const STATUSES = ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const;

/** Finds the endpoint of the first argument, and its queue API. */
async function open({
  args,
  options,
  env,
}: Invocation): Promise<{ readonly endpoint: EndpointRow; readonly api: QueueApi; readonly client: GatewayClient }> {
  const settings = readSettings(options, env);
  const [{ findEndpoint }, { listEndpoints }] = await Promise.all([import('../api/find-endpoint.ts'), import('../api/control.ts')]);
  const { url, key } = gatewayOf(settings, env);
  const client = await connect(settings, env);
  const rows = await listEndpoints(client, textOption(options, 'env') ?? null);
  const endpoint = findEndpoint(rows, args[0] ?? '');
  return { endpoint, client, api: new QueueApi(`${url}/v2/${endpoint.id}`, key) };
}

const list: Command = {
  name: 'list',
  summary: 'List jobs of an endpoint.',
  arguments: [endpointArgument],
  options: [
    environmentOption,
    { flags: '--status <status>', description: 'only jobs with this status', choices: STATUSES },
    { flags: '--limit <jobs>', description: 'number of jobs, 1 to 100', default: '20' },
    { flags: '--offset <jobs>', description: 'number of jobs to leave out, newest first, for the next page', default: '0' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['jobs list hello', 'jobs list hello --status FAILED --limit 100', 'jobs list hello --offset 20'],
  async run(invocation) {
    const { options, terminal } = invocation;
    const { api } = await open(invocation);
    const query = new URLSearchParams();
    for (const name of ['status', 'limit', 'offset']) {
      const value = textOption(options, name);
      if (value !== undefined) query.set(name, value);
    }
    const page = await api.call<JobPage>('GET', `/requests?${query.toString()}`);
    printResult(invocation, page, () => {
      const rows = page.requests.map((job) => [
        job.id,
        job.status,
        ageOf(submittedAt(job.id)),
        span(job.delayTime),
        span(job.executionTime),
        String(job.retries ?? 0),
        job.error ?? job.queueReason ?? '',
      ]);
      terminal.table({
        head: ['ID', 'STATUS', 'AGE', 'QUEUED', 'DURATION', 'RETRIES', 'REASON'],
        rows,
        optional: ['RETRIES', 'QUEUED', 'DURATION', 'REASON'],
        cut: ['REASON'],
      });
      const shown = page.offset + page.requests.length;
      if (page.requests.length === page.total) return;
      const jobs = page.requests.length === 0 ? 'none' : `${page.offset + 1} to ${shown}`;
      terminal.hint(`These are ${jobs} of ${page.total} jobs, newest first`);
      if (shown < page.total && page.requests.length > 0) terminal.next(nextPage(invocation, shown));
    });
  },
};

const get: Command = {
  name: 'get',
  summary: 'Show a job with its timeline and, while it is queued, the reason.',
  arguments: [endpointArgument, jobArgument],
  options: [environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['jobs get hello 0198c0de-7a4b-7000-8000-3f1c2a9d5e60'],
  async run(invocation) {
    const { args, options, terminal } = invocation;
    const { api, client, endpoint } = await open(invocation);
    const job = await api.call<JobStatus>('GET', `/status/${encodeURIComponent(args[1] ?? '')}`);
    const { job: found } = await client.query(GET_JOB_STORY, { endpoint: endpoint.id, id: job.id });
    const submittedBy = found?.submittedBy ?? null;
    terminal.data(stringifyExact(submittedBy === null ? job : { ...job, submittedBy }, 2));
    if (flagOption(options, 'json')) return;
    if (found !== null) for (const line of timelineOf(found)) terminal.line(line);
    const { queueReason } = job;
    if (queueReason === undefined) return;
    const detail = endpoint.queueReason === queueReason && endpoint.queueDetail !== '' ? `: ${endpoint.queueDetail}` : '';
    terminal.warn(`The job is queued: ${queueReason}${detail}`);
  },
};

const cancel: Command = {
  name: 'cancel',
  summary: 'Cancel a job.',
  arguments: [endpointArgument, jobArgument],
  options: [environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['jobs cancel hello 0198c0de-7a4b-7000-8000-3f1c2a9d5e60'],
  run: (invocation) => change(invocation, 'cancel'),
};

const retry: Command = {
  name: 'retry',
  summary: 'Run a FAILED or TIMED_OUT job again, or all of them.',
  arguments: [endpointArgument, { ...jobArgument, optional: true }],
  options: [{ flags: '--failed', description: 'every FAILED and TIMED_OUT job' }, environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['jobs retry hello 0198c0de-7a4b-7000-8000-3f1c2a9d5e60', 'jobs retry hello --failed'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    if ((args[1] === undefined) !== flagOption(options, 'failed'))
      throw new CapstanError('INVALID_ARGUMENT', 'job: specify the id of a job, or --failed for every failed one', { field: 'job' });
    if (args[1] !== undefined) {
      await change(invocation, 'retry');
      return;
    }
    const { endpoint } = await open(invocation);
    const { retryFailed } = await import('../api/bulk.ts');
    const { changed } = await retryFailed(await connect(readSettings(options, env), env), endpoint.id);
    printResult(invocation, { retried: changed }, () => terminal.done(`Retrying ${changed} ${changed === 1 ? 'job' : 'jobs'}`));
  },
};

/** Changes one job and prints its new status. */
async function change(invocation: Invocation, operation: 'cancel' | 'retry'): Promise<void> {
  const { args, terminal } = invocation;
  const { api } = await open(invocation);
  const job = await api.call<JobStatus>('POST', `/${operation}/${encodeURIComponent(args[1] ?? '')}`);
  printResult(invocation, job, () => terminal.done(`Job ${job.id} is ${job.status}`));
}

const purge: Command = {
  name: 'purge',
  summary: 'Cancel all queued jobs of an endpoint.',
  arguments: [endpointArgument],
  options: [environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [endpoint = ''] }) => `Cancel all queued jobs of endpoint ${endpoint}?`,
  examples: ['jobs purge hello'],
  async run(invocation) {
    const { terminal } = invocation;
    const { api } = await open(invocation);
    const result = await api.call<{ readonly removed?: number }>('POST', '/purge-queue');
    const removed = result.removed ?? 0;
    printResult(invocation, result, () => terminal.done(`Cancelled ${removed} queued ${removed === 1 ? 'job' : 'jobs'}`));
  },
};

/** `capstan jobs`: the jobs of an endpoint. */
export const jobs: CommandGroup = {
  name: 'jobs',
  summary: 'List, inspect, cancel and retry jobs, or purge a queue.',
  commands: [list, get, cancel, retry, purge],
};

/** The submission of a job: ids are UUIDs of version 7, which begin with it. Null for any other id. */
function submittedAt(id: string): string | null {
  const [, seconds, rest] = /^(?:sync-)?([\da-f]{8})-([\da-f]{4})-7/.exec(id) ?? [];
  return seconds === undefined || rest === undefined ? null : new Date(Number.parseInt(seconds + rest, 16)).toISOString();
}

/** The command for the page that begins at `offset`. */
function nextPage({ args, options }: Invocation, offset: number): string {
  const given = ['env', 'status', 'limit'].flatMap((name) => {
    const value = textOption(options, name);
    return value === undefined ? [] : [`--${name} ${value}`];
  });
  return ['capstan jobs list', args[0] ?? '', ...given, `--offset ${offset}`].join(' ');
}

function span(ms: number | undefined): string {
  return ms === undefined ? '' : `${ms} ms`;
}
