import { errorTable } from '../../lib/errors.ts';
import { printResult, type Command, type Invocation } from '../command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../config.ts';
import { flagOption } from '../options.ts';
import { toolVersion } from '../version.ts';

/** `capstan version`: the version of this package, and of the Node that runs it; with `--check` those of the service's parts. */
export const version: Command = {
  name: 'version',
  summary: 'Print the version; with --check compare it with those of the service.',
  options: [{ flags: '--check', description: 'compare tool, gateway, schedulers and agents; say what to upgrade in which order' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['version', 'version --check', 'version --check --json'],
  run(invocation) {
    if (flagOption(invocation.options, 'check')) return check(invocation);
    const own = toolVersion();
    printResult(invocation, { version: own, node: process.versions.node }, () => invocation.terminal.data(own));
    return Promise.resolve();
  },
};

/** Exits with CONFIG when something is to be upgraded. */
async function check(invocation: Invocation): Promise<number> {
  const { options, env, terminal } = invocation;
  const [{ serviceVersions }, { newestVersion, upgradeSteps }, { connect }, { renderTable }] = await Promise.all([
    import('../api/versions.ts'),
    import('../doctor/versions.ts'),
    import('../gateway.ts'),
    import('../terminal/table.ts'),
  ]);
  const settings = readSettings(options, env);
  const found = await serviceVersions(await connect(settings, env));
  const parts = [...found.parts, { part: 'tool' as const, name: '', version: toolVersion(), state: '' }];
  const steps = upgradeSteps(parts);
  printResult(invocation, { newest: newestVersion(parts), parts, notes: found.notes, upgrade: steps }, () => {
    const rows = parts.map((each) => [each.part, each.name, each.version ?? 'unknown', each.state]);
    terminal.data(renderTable(['PART', 'NAME', 'VERSION', 'STATE'], rows));
    for (const note of found.notes) terminal.warn(note);
    if (steps.length === 0) terminal.done(`all parts have version ${newestVersion(parts) ?? 'unknown'}`);
    else terminal.warn(`upgrade to ${newestVersion(parts) ?? ''} in this order:`);
    for (const [i, { part, name, from, how }] of steps.entries())
      terminal.line(`  ${i + 1}. ${[part, name].filter((word) => word !== '').join(' ')} (${from ?? 'unknown'}): ${how}`);
  });
  return steps.length === 0 ? 0 : errorTable.CONFIG.exit;
}
