import { CapstanError } from '../../lib/errors.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { QueueApi, type JobPage, type JobStatus } from '../api/queue-api.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect, gatewayOf } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['list', 'show', 'cancel', 'retry', 'purge'] as const;
type Action = (typeof ACTIONS)[number];

/** `capstan jobs <action> <endpoint> [job]`: what is in a queue, why it waits, and what to do about it. */
export const jobs: Command = {
  name: 'jobs',
  summary: 'List, show, cancel and retry the jobs of an endpoint, or purge its queue.',
  arguments: [
    { name: 'action', description: ACTIONS.join(', ') },
    { name: 'endpoint', description: 'id or name' },
    { name: 'job', description: 'id, for show, cancel and retry', optional: true },
  ],
  options: [
    { flags: '--status <status>', description: 'list: only jobs in this status' },
    { flags: '--limit <jobs>', description: 'list: how many, 1 to 100 (20)' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const action = ACTIONS.find((name) => name === args[0]);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action === 'list' || action === 'purge') takesOnly(action, args, 2);
    const settings = readSettings(options, env);
    const [{ findEndpoint }, { listEndpoints }] = await Promise.all([import('../api/find-endpoint.ts'), import('../api/control.ts')]);
    const { url, key } = gatewayOf(settings, env);
    const endpoint = findEndpoint(await listEndpoints(await connect(settings, env), null), args[1] ?? '');
    const api = new QueueApi(`${url}/v2/${endpoint.id}`, key);
    const answer = await requestAction(api, action, invocation);
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(answer, null, 2));
    else if (action === 'list') print(invocation, answer as JobPage);
    else explain(invocation, action, answer as JobStatus & { readonly removed?: number }, endpoint);
  },
};

function requestAction(api: QueueApi, action: Action, { args, options }: Invocation): Promise<unknown> {
  if (action === 'list') {
    const query = new URLSearchParams();
    const status = textOption(options, 'status');
    const limit = textOption(options, 'limit');
    if (status !== undefined) query.set('status', status);
    if (limit !== undefined) query.set('limit', limit);
    return api.call('GET', `/requests?${query.toString()}`);
  }
  if (action === 'purge') return api.call('POST', '/purge-queue');
  const job = args[2];
  if (job === undefined) throw new CapstanError('INVALID_ARGUMENT', `job: ${action} needs the id of a job`, { field: 'job' });
  const path = `${action === 'show' ? 'status' : action}/${encodeURIComponent(job)}`;
  return api.call(action === 'show' ? 'GET' : 'POST', `/${path}`);
}

function print({ terminal }: Invocation, page: JobPage): void {
  const header = ['JOB', 'STATUS', 'WAITED', 'RAN', 'RETRIES', 'WHY'];
  const rows = page.requests.map((job) => [
    job.id,
    job.status,
    span(job.delayTime),
    span(job.executionTime),
    String(job.retries ?? 0),
    job.error ?? job.queueReason ?? '',
  ]);
  terminal.data(renderTable(header, rows));
  if (page.requests.length < page.total) terminal.warn(`${page.requests.length} of ${page.total} jobs; --limit shows more`);
}

/** A waiting job's reason comes with the facts behind it. */
function explain({ terminal }: Invocation, action: Action, job: JobStatus & { readonly removed?: number }, endpoint: EndpointRow): void {
  if (action === 'purge') {
    terminal.done(`${job.removed ?? 0} queued jobs cancelled`);
    return;
  }
  if (action !== 'show') {
    terminal.done(`${job.id} is ${job.status}`);
    return;
  }
  terminal.data(JSON.stringify(job, null, 2));
  const { queueReason } = job;
  if (queueReason === undefined) return;
  const facts = endpoint.queueReason === queueReason && endpoint.queueDetail !== '' ? `: ${endpoint.queueDetail}` : '';
  terminal.warn(`it waits: ${queueReason}${facts}`);
}

function span(ms: number | undefined): string {
  return ms === undefined ? '' : `${ms} ms`;
}
