import { CapstanError } from '../../lib/errors.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import type { EndpointDetail } from '../api/endpoint-detail.ts';
import { otherSettings } from '../api/shown-settings.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions, type Settings } from '../config.ts';
import { connect, withFleet } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';

const ACTIONS = ['list', 'show', 'set'] as const;

/** `capstan endpoints [action] [endpoint]`: what is deployed, how it fares, and what was decided about one. */
export const endpoints: Command = {
  name: 'endpoints',
  summary: 'List the endpoints with their URLs and state, show one with what was decided about it, or change its settings.',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; list when left out`, optional: true },
    { name: 'endpoint', description: 'show, set: id or name', optional: true },
    {
      name: 'settings...',
      description: 'set: key=value, for example workersMax=5 env.MODE=fast env.OLD= rateLimits.run=100/10',
      optional: true,
    },
  ],
  options: [
    { flags: '--env <environment>', description: 'only those of this environment' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run(invocation) {
    const { args, options, env } = invocation;
    const [given = 'list', wanted] = args;
    const action = ACTIONS.find((name) => name === given);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action !== 'set') takesOnly(action, args, action === 'list' ? 1 : 2);
    const settings = readSettings(options, env);
    const environment = textOption(options, 'env') ?? '';
    if (action === 'list') {
      const { listEndpoints } = await import('../api/control.ts');
      list(invocation, await listEndpoints(await connect(settings, env), environment === '' ? null : environment));
      return;
    }
    if (action === 'set') {
      await set(invocation, settings);
      return;
    }
    if (wanted === undefined)
      throw new CapstanError('INVALID_ARGUMENT', 'endpoint: show needs an endpoint, by id or name', { field: 'endpoint' });
    show(invocation, await withFleet(settings, env, options, (fleet) => fleet.endpoint(environment, wanted)));
  },
};

/** Settings change without a build; workers are replaced only where they depend on them. */
async function set({ args, options, env, terminal }: Invocation, settings: Settings): Promise<void> {
  const [, wanted, ...given] = args;
  if (wanted === undefined || given.length === 0)
    throw new CapstanError('INVALID_ARGUMENT', 'settings: set needs an endpoint and at least one key=value', { field: 'settings' });
  const [{ readChanges }, { findEndpoint }, { listEndpoints, updateEndpoint }] = await Promise.all([
    import('../api/endpoint-changes.ts'),
    import('../api/find-endpoint.ts'),
    import('../api/control.ts'),
  ]);
  const changes = readChanges(given);
  const client = await connect(settings, env);
  const { id, name, releaseId } = findEndpoint(await listEndpoints(client, textOption(options, 'env') ?? null), wanted);
  const updated = await updateEndpoint(client, id, changes);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(updated, null, 2));
    return;
  }
  terminal.done(`${name} is changed${updated.releaseId === releaseId ? '' : '; its workers are being replaced'}`);
  terminal.next(`capstan endpoints show ${name}`);
}

function list({ options, terminal }: Invocation, rows: readonly EndpointRow[]): void {
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  const header = ['NAME', 'KIND', 'ENVIRONMENT', 'WORKERS', 'IN QUEUE', 'IN PROGRESS', 'URL'];
  terminal.data(
    renderTable(
      header,
      rows.map((row) => [
        row.name,
        row.kind,
        row.environment,
        `${row.workers}/${row.workersMax}`,
        String(row.jobsInQueue),
        String(row.jobsInProgress),
        row.url,
      ]),
    ),
  );
  for (const { name, queueReason, queueDetail } of rows) {
    if (queueReason !== '') terminal.warn(`${name}: jobs wait (${queueReason})${queueDetail === '' ? '' : `: ${queueDetail}`}`);
  }
  if (rows.length === 0) terminal.next('capstan deploy <folder>');
}

function show({ options, terminal }: Invocation, detail: EndpointDetail | null): void {
  if (detail === null || flagOption(options, 'json')) {
    terminal.data(JSON.stringify(detail, null, 2));
    return;
  }
  const { settings } = detail;
  const counts = Object.entries(detail.workerCounts).flatMap(([state, count]) => (count === 0 ? [] : [`${count} ${state}`]));
  const hardware = settings.gpu === '' ? settings.cpu || 'CPU' : `${settings.gpuCount} × ${settings.gpu}`;
  const facts: [string, string][] = [
    ['name', `${detail.name} (${detail.id}, ${detail.kind}, environment ${detail.environment})`],
    ['url', detail.url],
    ['release', `${detail.releaseId} of build ${detail.buildDigest.slice(0, 12)}`],
    [
      'workers',
      `${detail.workersMin} to ${detail.workersMax}, each ${settings.maxConcurrency} at once; now ${counts.join(', ') || 'none'}`,
    ],
    ['scaling', `${settings.scalerType} ${settings.scalerValue}, idle time-out ${settings.idleTimeoutS} s`],
    ['hardware', hardware],
    ['jobs', `${detail.jobsInQueue} in queue, ${detail.jobsInProgress} in progress`],
    ...otherSettings(settings, ['maxConcurrency', 'scalerType', 'scalerValue', 'idleTimeoutS', 'gpu', 'gpuCount', 'cpu']),
  ];
  const width = Math.max(9, ...facts.map(([name]) => name.length));
  terminal.data(facts.map(([name, value]) => `${name.padEnd(width)} ${visibleLine(value)}`).join('\n'));
  if (detail.workerList.length > 0) {
    const rows = detail.workerList.map((worker) => [
      worker.id,
      worker.state,
      worker.runtime,
      worker.nodeId,
      worker.detail || worker.decision,
    ]);
    terminal.data(`\n${renderTable(['WORKER', 'STATE', 'RUNTIME', 'NODE', 'WHY'], rows)}`);
  }
  if (detail.decisions.length > 0) {
    const rows = detail.decisions.map(({ at, kind, worker, node, reason }) => [at, kind, worker, node, reason]);
    terminal.data(`\n${renderTable(['AT', 'DECISION', 'WORKER', 'NODE', 'WHY'], rows)}`);
  }
  if (detail.queueReason !== '') terminal.warn(`jobs wait (${detail.queueReason}): ${detail.queueDetail}`);
  for (const { reason, nodes, examples } of detail.rejections) {
    const shown = examples.map(({ node, detail }) => (detail === '' ? node : `${node} (${detail})`)).join(', ');
    terminal.warn(`no place on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}: ${reason}: ${shown}`);
  }
  if (detail.failedStarts > 0) terminal.warn(`${detail.failedStarts} starts failed in a row; the last: ${detail.lastStartError}`);
}
