import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { CapstanError, errorTable } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { printResult, type Command, type Invocation } from '../command/command.ts';
import { GATEWAY_SETTINGS, installRoot, readSettings } from '../../terminal/config.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { toolVersion } from '../../terminal/version.ts';

/** `capstan version`: the version of this package, and of the Node that runs it; with `--check` those of the service's parts, with `--verify` whether the installation is whole. */
export const version: Command = {
  name: 'version',
  summary: 'Print the version; with --check compare it with those of the service; with --verify check this installation.',
  options: [
    { flags: '--check', description: 'compare tool, gateway, schedulers and agents; say what to upgrade in which order' },
    { flags: '--verify', description: 'compare the files of an installation from the offline bundle with the signed list of the release' },
    { flags: '--key <file>', description: 'with --verify: the public key of the release, from a source that you trust' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['version', 'version --check', 'version --check --json', 'version --verify --key capstan-release.pub'],
  run(invocation) {
    if (flagOption(invocation.options, 'check')) return check(invocation);
    if (flagOption(invocation.options, 'verify')) return verify(invocation);
    const own = toolVersion();
    printResult(invocation, { version: own, node: process.versions.node }, () => invocation.terminal.data(own));
    return Promise.resolve();
  },
};

/** Exits with CONFIG when something is to be upgraded. */
async function check(invocation: Invocation): Promise<number> {
  const { options, env, terminal } = invocation;
  const [{ serviceVersions }, { newestVersion, upgradeSteps }, { connect }] = await Promise.all([
    import('../api/versions.ts'),
    import('../../client/versions.ts'),
    import('../../client/gateway.ts'),
  ]);
  const settings = readSettings(options, env);
  const found = await serviceVersions(await connect(settings, env));
  const parts = [...found.parts, { part: 'tool' as const, name: '', version: toolVersion(), state: '' }];
  const steps = upgradeSteps(parts);
  printResult(invocation, { newest: newestVersion(parts), parts, notes: found.notes, upgrade: steps }, () => {
    const rows = parts.map((each) => [each.part, each.name, each.version ?? 'unknown', each.state]);
    terminal.table({ head: ['PART', 'NAME', 'VERSION', 'STATE'], rows, cut: ['STATE'] });
    for (const note of found.notes) terminal.warn(note);
    if (steps.length === 0) terminal.done(`all parts have version ${newestVersion(parts) ?? 'unknown'}`);
    else terminal.warn(`upgrade to ${newestVersion(parts) ?? ''} in this order:`);
    for (const [i, { part, name, from, how }] of steps.entries())
      terminal.line(`  ${i + 1}. ${[part, name].filter((word) => word !== '').join(' ')} (${from ?? 'unknown'}): ${how}`);
  });
  return steps.length === 0 ? 0 : errorTable.CONFIG.exit;
}

/** Exits with CONFIG when a file of the installation is missing, was changed or was added. */
async function verify(invocation: Invocation): Promise<number> {
  const { options, terminal } = invocation;
  const { SUMS, verifyInstallation } = await import('../../lib/installation.ts');
  const keyFile = textOption(options, 'key');
  // As npm lays it out: <folder>/node_modules/capstan.
  const folder = join(installRoot, '../..');
  if (!existsSync(join(folder, SUMS)))
    throw new CapstanError(
      'CONFIG',
      `this installation has no signed list of its files (${join(folder, SUMS)}): it is not of an offline bundle`,
    );
  const trusted = keyFile === undefined ? undefined : await readKey(keyFile);
  const { keyId, comment, files, problems } = await verifyInstallation(folder, trusted).catch((error: unknown) => {
    throw new CapstanError('CONFIG', `the list of the installation's files is not valid: ${messageOf(error)}`);
  });
  printResult(invocation, { folder, key: keyId, release: comment, files, problems }, () => {
    for (const problem of problems) terminal.warn(problem);
    if (problems.length > 0) terminal.line(`${problems.length} files differ from the release: install it again`);
    else terminal.done(`${files} files are as in the release (${comment}, key ${keyId})`);
    if (trusted === undefined) terminal.warn('the key is that of the installation itself: --key <file> checks against one that you trust');
  });
  return problems.length === 0 ? 0 : errorTable.CONFIG.exit;
}

async function readKey(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new CapstanError('CONFIG', `--key: cannot read ${file}: ${messageOf(error)}`);
  }
}
