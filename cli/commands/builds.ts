import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { sizeText } from '../../terminal/size-text.ts';

const DIGITS = 12;

const list: Command = {
  name: 'list',
  summary: 'List the stored builds, of all endpoints or of one.',
  arguments: [{ name: 'endpoint', description: 'id or name', optional: true }],
  options: [{ flags: '--env <environment>', description: 'only builds of this environment', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['builds list', 'builds list hello --env staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { listBuilds } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const rows = await listBuilds(client, textOption(options, 'env') ?? null, args[0] ?? null);
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.digest.slice(0, DIGITS),
        row.environment,
        ageOf(row.deployedAt),
        sizeText(row.size),
        row.endpoints.join(', '),
        row.current.join(', '),
      ]);
      terminal.table({
        head: ['DIGEST', 'ENVIRONMENT', 'AGE', 'SIZE', 'ENDPOINTS', 'CURRENT FOR'],
        rows: cells,
        optional: ['SIZE'],
        cut: ['ENDPOINTS', 'CURRENT FOR'],
      });
      terminal.next(rows.length === 0 ? 'capstan deploy <folder>' : 'capstan rollback --to <digest>');
    });
  },
};

/** `capstan builds`: the builds that a rollback can return to. */
export const builds: CommandGroup = { name: 'builds', summary: 'List the stored builds.', commands: [list] };

/** `capstan rollback [endpoint]`: deploys the previous build, or a given one, again. */
export const rollback: Command = {
  name: 'rollback',
  summary: 'Redeploy the previous build, or a given one: code, environment values and settings.',
  arguments: [
    { name: 'endpoint', description: 'id or name; without it, every endpoint that the latest deployment changed', optional: true },
  ],
  options: [
    { flags: '--env <environment>', description: 'the environment', default: 'default' },
    { flags: '--to <digest>', description: 'digest of the build, or at least its first 6 digits', default: 'the previous build' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['rollback hello', 'rollback --env staging', 'rollback hello --to 3fa94c1b22d0'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { rollback: requestRollback } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const { endpoints, environment } = await requestRollback(client, {
      environment: textOption(options, 'env') ?? 'default',
      endpoint: args[0] ?? null,
      build: textOption(options, 'to') ?? null,
    });
    printResult(invocation, endpoints, () => {
      for (const { name, buildDigest } of endpoints)
        terminal.done(`Rolled back ${name} in environment ${environment} to build ${buildDigest.slice(0, DIGITS)}`);
      terminal.next('capstan endpoints list');
    });
  },
};
