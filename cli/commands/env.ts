import { assertNever, CapstanError } from '../../lib/errors.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import type { GatewayClient } from '../api/gateway-client.ts';
import { takesOnly, type Command, type Invocation } from '../command.ts';
import { flagOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';
import { ToolError } from '../terminal/tool-error.ts';

const ACTIONS = ['list', 'get', 'create', 'delete'] as const;

/** `capstan env <action> [environment]`. */
export const environments: Command = {
  name: 'env',
  summary: 'List environments, show one with its endpoints’ URLs, create or delete one.',
  arguments: [
    { name: 'action', description: `${ACTIONS.join(', ')}; list when left out`, optional: true },
    { name: 'environment', description: 'its name', optional: true },
  ],
  options: [
    { flags: '--force', description: 'delete: together with its endpoints' },
    { flags: '--stop', description: 'delete: stop running jobs, too' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run(invocation) {
    const { args, options, env } = invocation;
    const [given = 'list', name] = args;
    const action = ACTIONS.find((each) => each === given);
    if (action === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `action: must be one of ${ACTIONS.join(', ')}`, { field: 'action' });
    if (action === 'list') takesOnly(action, args, 1);
    const client = await connect(readSettings(options, env), env);
    if (action === 'list') {
      await list(invocation, client);
      return;
    }
    if (name === undefined)
      throw new CapstanError('INVALID_ARGUMENT', `environment: ${action} needs the name of one`, { field: 'environment' });
    switch (action) {
      case 'get':
        return get(invocation, client, name);
      case 'create':
        return create(invocation, client, name);
      case 'delete':
        return remove(invocation, client, name);
      default:
        return assertNever(action);
    }
  },
};

async function list({ options, terminal }: Invocation, client: GatewayClient): Promise<void> {
  const { listEnvironments } = await import('../api/control.ts');
  const rows = await listEnvironments(client);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(rows, null, 2));
    return;
  }
  const cells = rows.map((row) => [row.name, String(row.endpoints), String(row.workersMax), String(row.deployment), row.createdAt ?? '']);
  terminal.data(renderTable(['NAME', 'ENDPOINTS', 'WORKERS MAX', 'DEPLOYMENT', 'CREATED'], cells));
  const [first] = rows;
  terminal.next(first === undefined ? 'capstan deploy <folder>' : `capstan env get ${first.name}`);
}

async function get({ options, terminal }: Invocation, client: GatewayClient, name: string): Promise<void> {
  const { getEnvironment } = await import('../api/control.ts');
  const found = await getEnvironment(client, name);
  if (found === null)
    throw new ToolError('NOT_FOUND', `there is no environment ${name}`, 'capstan env list shows those that are there.', {
      field: 'environment',
    });
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(found, null, 2));
    return;
  }
  const { printEndpoints } = await import('../deploy/report.ts');
  terminal.line(`environment ${found.name}, deployment ${found.deployment}`);
  printEndpoints(found.endpoints, terminal);
  for (const { url } of found.endpoints) terminal.repeated(url);
  if (found.endpoints.length === 0) terminal.next(`capstan deploy <folder> --env ${name}`);
}

async function create({ options, terminal }: Invocation, client: GatewayClient, name: string): Promise<void> {
  const { createEnvironment } = await import('../api/control.ts');
  await createEnvironment(client, name);
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify({ name }, null, 2));
    return;
  }
  terminal.done(`environment ${name} is created`);
  terminal.next(`capstan deploy <folder> --env ${name}`);
}

async function remove({ options, terminal }: Invocation, client: GatewayClient, name: string): Promise<void> {
  const { deleteEnvironment } = await import('../api/control.ts');
  let deleted: EndpointRow[];
  try {
    deleted = await deleteEnvironment(client, { name, force: flagOption(options, 'force'), stopJobs: flagOption(options, 'stop') });
  } catch (error) {
    if (!(error instanceof CapstanError) || error.code !== 'CONFLICT') throw error;
    throw new ToolError(error.code, error.message, `capstan env delete ${name} --force deletes them with it.`, { cause: error });
  }
  if (flagOption(options, 'json')) {
    terminal.data(JSON.stringify(deleted, null, 2));
    return;
  }
  const count = deleted.length === 0 ? '' : ` with ${deleted.length} endpoints`;
  terminal.done(`environment ${name} is deleted${count}`);
  terminal.next('capstan env list');
}
