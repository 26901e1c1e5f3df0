import { resolve } from 'node:path';

import { flagOption, textOption, type Command } from '../command.ts';
import { readSettings, settingOptions } from '../config.ts';
import { apiKeyForShell, httpBase, withScheduler } from '../local.ts';

/** `capstan deploy <folder>`: builds it, uploads it, creates or updates its endpoints. */
export const deploy: Command = {
  name: 'deploy',
  summary: 'Build a folder, upload it and create or update its endpoints.',
  arguments: [{ name: 'folder', description: 'holds tool_manifest.json and the functions it names' }],
  options: [
    { flags: '--env <environment>', description: 'environment to deploy into, created when it is not there (default)' },
    { flags: '--json', description: 'print the endpoints as JSON' },
    ...settingOptions('httpPort', 'grpcPort', 'dataDir', 'scheduler'),
  ],
  async run({ args, options, env, terminal }) {
    const settings = readSettings(options, env);
    const folder = resolve(env.cwd, args[0] ?? '.');
    const [{ readApplication }, { buildApplication, deployApplication, sizeText }, { nextCommand, printEndpoints }, { endpointRow }] =
      await Promise.all([
        import('../deploy/application.ts'),
        import('../deploy/deploy.ts'),
        import('../deploy/report.ts'),
        import('../api/endpoint-row.ts'),
      ]);
    const application = await readApplication(folder);
    terminal.step(`building ${folder}`);
    const artifact = await buildApplication(application, terminal);
    terminal.done(`${artifact.files} files, ${sizeText(artifact.size)}, sha256 ${artifact.digest.slice(0, 12)}`);
    const response = await withScheduler(settings, async (client) => {
      terminal.step(`deploying to ${client.address}`);
      return deployApplication(client, application, artifact, textOption(options, 'env') ?? '', terminal);
    });
    const base = httpBase(settings);
    const rows = response.endpoints.map((endpoint) => ({ ...endpointRow(endpoint, base), created: endpoint.created }));
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(rows, null, 2));
    const created = rows.filter((row) => row.created).length;
    terminal.done(`environment ${response.environment}: ${created} created, ${rows.length - created} updated`);
    printEndpoints(rows, terminal);
    const next = nextCommand(application, rows, apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] !== undefined));
    if (next !== null) terminal.next(next);
  },
};
