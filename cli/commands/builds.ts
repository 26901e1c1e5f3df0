import type { Command } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { readSettings, settingOptions } from '../config.ts';
import { connect } from '../gateway.ts';
import { renderTable } from '../terminal/table.ts';
import { sizeText } from '../deploy/size-text.ts';

const DIGITS = 12;

/** `capstan builds [endpoint]`: what there is to go back to. */
export const builds: Command = {
  name: 'builds',
  summary: 'List the builds that are kept, of all endpoints or of one.',
  arguments: [{ name: 'endpoint', description: 'id or name', optional: true }],
  options: [
    { flags: '--env <environment>', description: 'only those of this environment' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run({ args, options, env, terminal }) {
    const { listBuilds } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const rows = await listBuilds(client, textOption(options, 'env') ?? null, args[0] ?? null);
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(rows, null, 2));
      return;
    }
    const header = ['BUILD', 'ENVIRONMENT', 'DEPLOYED', 'SIZE', 'ENDPOINTS', 'IN USE BY'];
    const cells = rows.map((row) => [
      row.digest.slice(0, DIGITS),
      row.environment,
      row.deployedAt,
      sizeText(row.size),
      row.endpoints.join(', '),
      row.current.join(', '),
    ]);
    terminal.data(renderTable(header, cells));
    if (rows.length === 0) terminal.next('capstan deploy <folder>');
    else terminal.next('capstan rollback --to <build>');
  },
};

/** `capstan rollback [endpoint]`: the build before, or a given one, once more. */
export const rollback: Command = {
  name: 'rollback',
  summary: 'Go back to the build before, or to a given one: code, environment values and settings.',
  arguments: [{ name: 'endpoint', description: 'id or name; left out: whatever the newest deployment changed', optional: true }],
  options: [
    { flags: '--env <environment>', description: 'the environment (default)' },
    { flags: '--to <build>', description: 'digest of the build, or its first digits (6 at least)' },
    { flags: '--json', description: 'print JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run({ args, options, env, terminal }) {
    const { rollback: goBack } = await import('../api/control.ts');
    const client = await connect(readSettings(options, env), env);
    const asked = {
      environment: textOption(options, 'env') ?? 'default',
      endpoint: args[0] ?? null,
      build: textOption(options, 'to') ?? null,
    };
    const { endpoints, environment } = await goBack(client, asked);
    if (flagOption(options, 'json')) {
      terminal.data(JSON.stringify(endpoints, null, 2));
      return;
    }
    for (const { name, buildDigest } of endpoints)
      terminal.done(`${name} of environment ${environment} is back at build ${buildDigest.slice(0, DIGITS)}`);
    terminal.next('capstan endpoints');
  },
};
