import { visibleLine } from '../../lib/visible-text.ts';
import type { EndpointDetail } from '../api/endpoint-detail.ts';
import { otherSettings } from '../api/shown-settings.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { printResult, type Command, type CommandGroup, type Invocation } from '../command/command.ts';
import { textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { publicWarning } from '../deploy/report.ts';
import { endpointDelete } from './endpoint-delete.ts';

const environmentOption = { flags: '--env <environment>', description: 'only endpoints of this environment', default: 'all' };

const list: Command = {
  name: 'list',
  summary: 'List the endpoints with their URLs and queues.',
  options: [environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['endpoints list', 'endpoints list --env staging -o json'],
  async run(invocation) {
    const { options, env } = invocation;
    const { listEndpoints } = await import('../api/control.ts');
    const rows = await listEndpoints(await connect(readSettings(options, env), env), textOption(options, 'env') ?? null);
    printResult(invocation, rows, () => printList(invocation, rows));
  },
};

function printList({ terminal }: Invocation, rows: readonly EndpointRow[]): void {
  const cells = rows.map((row) => [
    row.name,
    row.kind,
    row.environment,
    `${row.workers}/${row.workersMax}`,
    String(row.jobsInQueue),
    String(row.jobsInProgress),
    row.url,
  ]);
  terminal.table({
    head: ['NAME', 'KIND', 'ENVIRONMENT', 'WORKERS', 'QUEUED', 'RUNNING', 'URL'],
    rows: cells,
    optional: ['KIND', 'URL', 'ENVIRONMENT'],
  });
  for (const { name, queueReason, queueDetail, kind } of rows)
    if (queueReason !== '') terminal.warn(`${name}: ${waiting(kind)}: ${queueReason}${queueDetail === '' ? '' : `: ${queueDetail}`}`);
  if (rows.length === 0) terminal.next('capstan deploy <folder>');
}

const get: Command = {
  name: 'get',
  summary: 'Show an endpoint: settings, release, workers and the last scaling decisions with their reasons.',
  arguments: [{ name: 'endpoint', description: 'id or name' }],
  options: [{ flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['endpoints get hello', 'endpoints get hello --env staging --json'],
  async run(invocation) {
    const { args, options, env } = invocation;
    const { getEndpoint } = await import('../api/endpoint-detail.ts');
    const client = await connect(readSettings(options, env), env);
    const detail = await getEndpoint(client, textOption(options, 'env') ?? null, args[0] ?? '');
    printResult(invocation, detail, () => printDetail(invocation, detail));
  },
};

function printDetail({ terminal }: Invocation, detail: EndpointDetail | null): void {
  if (detail === null) {
    terminal.data(JSON.stringify(detail, null, 2));
    return;
  }
  terminal.data(facts(detail));
  if (detail.workerList.length > 0) {
    const rows = detail.workerList.map((worker) => [
      worker.id,
      worker.state,
      worker.runtime,
      worker.nodeId,
      worker.detail || worker.decision,
    ]);
    terminal.data('');
    terminal.table({
      head: ['WORKER', 'STATUS', 'RUNTIME', 'NODE', 'REASON'],
      rows,
      optional: ['RUNTIME', 'NODE'],
      cut: ['REASON'],
    });
  }
  if (detail.decisions.length > 0) {
    const rows = detail.decisions.map(({ at, kind, worker, node, reason }) => [at, ageOf(at), kind, worker, node, reason]);
    terminal.data('');
    terminal.table({
      head: ['TIME', 'AGE', 'DECISION', 'WORKER', 'NODE', 'REASON'],
      rows,
      optional: ['TIME', 'NODE', 'WORKER'],
      cut: ['REASON'],
    });
  }
  if (detail.queueReason !== '') terminal.warn(`${waiting(detail.kind)}: ${detail.queueReason}: ${detail.queueDetail}`);
  for (const { reason, nodes, examples } of detail.rejections) {
    const shown = examples.map(({ node, detail }) => (detail === '' ? node : `${node} (${detail})`)).join(', ');
    terminal.warn(`No eligible node (${nodes} checked): ${reason}: ${shown}`);
  }
  if (detail.failedStarts > 0)
    terminal.warn(
      `${detail.failedStarts} consecutive worker ${detail.failedStarts === 1 ? 'start' : 'starts'} failed; last error: ${detail.lastStartError}`,
    );
}

function waiting(kind: EndpointDetail['kind']): string {
  return kind === 'queue' ? 'jobs are queued' : 'requests wait';
}

function facts({ settings, ...detail }: EndpointDetail): string {
  const counts = Object.entries(detail.workerCounts).flatMap(([state, count]) => (count === 0 ? [] : [`${count} ${state}`]));
  const hardware = settings.gpu === '' ? settings.cpu || 'CPU' : `${settings.gpuCount} × ${settings.gpu}`;
  const lines: [string, string][] = [
    ['name', `${detail.name} (${detail.id}, ${detail.kind}, environment ${detail.environment})`],
    ['url', detail.url],
    ['release', `${detail.releaseId}, build ${detail.buildDigest.slice(0, 12)}`],
    [
      'workers',
      `${detail.workersMin} to ${detail.workersMax}, concurrency ${settings.maxConcurrency} each; now ${counts.join(', ') || 'none'}`,
    ],
    ['scaling', `${settings.scalerType} ${settings.scalerValue}, idle timeout ${settings.idleTimeoutS} s`],
    ['hardware', hardware],
    ['jobs', `${detail.jobsInQueue} queued, ${detail.jobsInProgress} running`],
    ...otherSettings(settings, ['maxConcurrency', 'scalerType', 'scalerValue', 'idleTimeoutS', 'gpu', 'gpuCount', 'cpu']),
  ];
  const width = Math.max(9, ...lines.map(([name]) => name.length));
  return lines.map(([name, value]) => `${name.padEnd(width)} ${visibleLine(value)}`).join('\n');
}

const set: Command = {
  name: 'set',
  summary: 'Change settings of an endpoint without a build. Workers are replaced only if a setting requires it.',
  arguments: [
    { name: 'endpoint', description: 'id or name' },
    {
      name: 'settings...',
      description: '<key>=<value>, such as workersMax=5, env.MODE=fast, env.OLD= (removes it), rateLimits.run=100/10',
    },
  ],
  options: [{ flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['endpoints set hello workersMin=1 workersMax=5', 'endpoints set hello env.MODE=fast env.OLD='],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [wanted = '', ...given] = args;
    const [{ readChanges }, { findEndpoint }, { listEndpoints, updateEndpoint }] = await Promise.all([
      import('../api/endpoint-changes.ts'),
      import('../api/find-endpoint.ts'),
      import('../api/control.ts'),
    ]);
    const changes = readChanges(given);
    const client = await connect(readSettings(options, env), env);
    const { id, name, releaseId } = findEndpoint(await listEndpoints(client, textOption(options, 'env') ?? null), wanted);
    const updated = await updateEndpoint(client, id, changes);
    printResult(invocation, updated, () => {
      if (changes['public'] === true) terminal.warn(publicWarning(name));
      terminal.done(`Updated endpoint ${name}${updated.releaseId === releaseId ? '' : '; its workers are being replaced'}`);
      terminal.next(`capstan endpoints get ${name}`);
    });
  },
};

/** `capstan endpoints`: deployed endpoints. */
export const endpoints: CommandGroup = {
  name: 'endpoints',
  summary: 'List, inspect, configure and delete endpoints.',
  commands: [list, get, set, endpointDelete],
};
