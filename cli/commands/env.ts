import { CapstanError } from '../../lib/errors.ts';
import type { EndpointRow } from '../api/endpoint-row.ts';
import { printResult, type Command, type CommandGroup, type Invocation } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const environment = { name: 'environment', description: 'name of the environment' };

const list: Command = {
  name: 'list',
  summary: 'List the environments.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['env list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listEnvironments } = await import('../api/control.ts');
    const rows = await listEnvironments(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.name,
        String(row.endpoints),
        String(row.workersMax),
        String(row.deployment),
        ageOf(row.createdAt),
      ]);
      terminal.table({ head: ['NAME', 'ENDPOINTS', 'MAX WORKERS', 'DEPLOYMENT', 'AGE'], rows: cells, optional: ['DEPLOYMENT'] });
      const [first] = rows;
      terminal.next(first === undefined ? 'capstan deploy <folder>' : `capstan env get ${first.name}`);
    });
  },
};

const get: Command = {
  name: 'get',
  summary: 'Show an environment with the URLs of its endpoints.',
  arguments: [environment],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['env get staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const name = args[0] ?? '';
    const { getEnvironment } = await import('../api/control.ts');
    const found = await getEnvironment(await connect(readSettings(options, env), env), name);
    if (found === null)
      throw new ToolError('NOT_FOUND', `environment ${name} not found`, 'To list the environments: capstan env list', {
        field: 'environment',
      });
    const { printEndpoints } = await import('../deploy/report.ts');
    printResult(invocation, found, () => {
      terminal.line(`environment ${found.name}, deployment ${found.deployment}`);
      printEndpoints(found.endpoints, terminal);
      for (const { name: endpoint, url } of found.endpoints) terminal.repeated(`${endpoint} ${url}`);
      if (found.endpoints.length === 0) terminal.next(`capstan deploy <folder> --env ${name}`);
    });
  },
};

const create: Command = {
  name: 'create',
  summary: 'Create an environment.',
  arguments: [environment],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['env create staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const name = args[0] ?? '';
    const { createEnvironment } = await import('../api/control.ts');
    await createEnvironment(await connect(readSettings(options, env), env), name);
    printResult(invocation, { name }, () => {
      terminal.done(`Created environment ${name}`);
      terminal.next(`capstan deploy <folder> --env ${name}`);
    });
  },
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete an environment.',
  arguments: [environment],
  options: [
    { flags: '--force', description: 'also delete its endpoints' },
    { flags: '--stop', description: 'also stop running jobs, which otherwise run to completion' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [wanted = ''], options }) =>
    `Delete environment ${wanted}${flagOption(options, 'force') ? ' and all of its endpoints' : ''}?`,
  examples: ['env delete staging', 'env delete staging --force --stop'],
  async run(invocation) {
    const { args, terminal } = invocation;
    const name = args[0] ?? '';
    const deleted = await requestDeletion(invocation, name);
    printResult(invocation, deleted, () => {
      const count = deleted.length === 0 ? '' : ` and ${deleted.length} ${deleted.length === 1 ? 'endpoint' : 'endpoints'}`;
      terminal.done(`Deleted environment ${name}${count}`);
      terminal.next('capstan env list');
    });
  },
};

async function requestDeletion({ options, env }: Invocation, name: string): Promise<EndpointRow[]> {
  const { deleteEnvironment } = await import('../api/control.ts');
  const client = await connect(readSettings(options, env), env);
  try {
    return await deleteEnvironment(client, { name, force: flagOption(options, 'force'), stopJobs: flagOption(options, 'stop') });
  } catch (error) {
    if (!(error instanceof CapstanError) || error.code !== 'CONFLICT') throw error;
    throw new ToolError(error.code, error.message, `To delete its endpoints too: capstan env delete ${name} --force`, { cause: error });
  }
}

/** `capstan env`: environments. */
export const environments: CommandGroup = {
  name: 'env',
  summary: 'Manage environments.',
  commands: [list, get, create, remove],
};
