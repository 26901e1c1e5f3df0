import { resolve } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { buildOptions, buildOptionSpecs } from '../build-options.ts';
import type { Command, Invocation } from '../command.ts';
import { flagOption, textOption } from '../options.ts';
import { keySource, readSettings, settingOptions, type Settings } from '../config.ts';
import { connect } from '../gateway.ts';
import { apiKeyForShell } from '../local.ts';
import { sizeText } from '../deploy/size-text.ts';

/** `capstan deploy <folder>`: builds it, uploads it, creates or updates its endpoints. */
export const deploy: Command = {
  name: 'deploy',
  summary: 'Build a folder, upload it and create or update its endpoints.',
  arguments: [{ name: 'folder', description: 'declares endpoints, or holds tool_manifest.json (the working folder)', optional: true }],
  options: [
    { flags: '--env <environment>', description: 'environment to deploy into, created when it is not there (default)' },
    { flags: '--preview', description: 'try it here instead: one container an endpoint, on a stack of its own, until Ctrl+C' },
    { flags: '--image <image>', description: 'with --preview: container image for endpoints that name none' },
    ...buildOptionSpecs,
    { flags: '--json', description: 'print the endpoints as JSON' },
    ...settingOptions('url', 'httpPort', 'dataDir'),
  ],
  async run({ args, options, env, terminal }) {
    const folder = resolve(env.cwd, args[0] ?? '.');
    const settings = readSettings(options, env, folder);
    if (flagOption(options, 'preview')) return preview(folder, settings, { options, env, terminal });
    if (options['image'] !== undefined)
      throw new CapstanError('INVALID_ARGUMENT', '--image: is for --preview; deployed endpoints name their image themselves', {
        field: '--image',
      });
    const [{ build }, { withFolder }, { deployApplication }, { lackingPackages, readFleet }, { nextCommand, printEndpoints }] =
      await Promise.all([
        import('../build/build.ts'),
        import('../build/folder-lock.ts'),
        import('../deploy/deploy.ts'),
        import('../deploy/fleet.ts'),
        import('../deploy/report.ts'),
      ]);
    terminal.step(`building ${folder}`);
    const { application, client, deployed } = await withFolder(folder, terminal, async () => {
      const built = await build(folder, buildOptions(options, env, folder), terminal);
      const { files, size, digest } = built.artifact;
      terminal.done(`${files} files, ${sizeText(size)}, sha256 ${digest.slice(0, 12)}`);
      const client = await connect(settings, env);
      terminal.step(`deploying to ${client.address}`);
      const into = textOption(options, 'env') ?? 'default';
      return { ...built, client, deployed: await deployApplication(client, built.application, built.artifact, into, terminal) };
    });
    const { environment, endpoints: rows } = deployed;
    if (flagOption(options, 'json')) terminal.data(JSON.stringify(rows, null, 2));
    const created = rows.filter((row) => row.created).length;
    terminal.done(`environment ${environment}: ${created} created, ${rows.length - created} updated`);
    printEndpoints(rows, terminal);
    if (application.endpoints.some(({ spec }) => spec.packages.length > 0))
      for (const text of lackingPackages(application, await readFleet(client))) terminal.warn(text);
    const next = nextCommand(application, rows, apiKeyForShell(settings, keySource(env, folder)));
    if (next !== null) terminal.next(next);
  },
};

async function preview(folder: string, settings: Settings, { options, env, terminal }: Omit<Invocation, 'args'>): Promise<number> {
  for (const [name, flag] of [
    ['url', '--url'],
    ['dataDir', '--data-dir'],
  ] as const)
    if (options[name] !== undefined)
      throw new CapstanError('INVALID_ARGUMENT', `${flag}: a preview has a stack and a data folder of its own`, { field: flag });
  const [{ build }, { withFolder }, { runPreview }] = await Promise.all([
    import('../build/build.ts'),
    import('../build/folder-lock.ts'),
    import('../preview/preview.ts'),
  ]);
  return runPreview({
    settings,
    // The variable is that of the user's own service, which may run beside.
    httpPort: options['httpPort'] === undefined ? 0 : (settings.httpPort ?? 0),
    environment: env,
    into: textOption(options, 'env') ?? 'default',
    image: textOption(options, 'image'),
    asJson: flagOption(options, 'json'),
    terminal,
    async build() {
      terminal.step(`building ${folder}`);
      const built = await withFolder(folder, terminal, () => build(folder, buildOptions(options, env, folder), terminal));
      terminal.done(`${built.artifact.files} files, ${sizeText(built.artifact.size)}, sha256 ${built.artifact.digest.slice(0, 12)}`);
      return built;
    },
  });
}
