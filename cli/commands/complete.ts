import type { Command } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { textOption } from '../../terminal/options.ts';
import { NAME } from '../../lib/endpoint-names.ts';

const KINDS = ['endpoint', 'environment'] as const;

/** Longest wait of a shell for names, ms. */
const LIMIT_MS = 1_000;

/**
 * `capstan complete <kind>`: names for the shell's completion, one a line. Whatever fails, the shell gets no names and no
 * message. Only names that are valid are printed: a shell expands the words that it completes.
 */
export const complete: Command = {
  name: 'complete',
  summary: 'Print names for shell completion.',
  hidden: true,
  arguments: [{ name: 'kind', description: 'what to list', choices: KINDS }],
  options: [{ flags: '--env <environment>', description: 'only endpoints of this environment', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  examples: ['complete endpoint'],
  async run({ args, options, env, terminal }) {
    const timer = setTimeout(() => process.exit(0), LIMIT_MS);
    try {
      const client = await connect(readSettings(options, env), env);
      const { listEndpoints, listEnvironments } = await import('../api/control.ts');
      const environment = textOption(options, 'env') ?? null;
      const rows = args[0] === 'environment' ? await listEnvironments(client) : await listEndpoints(client, environment);
      const names = [...new Set(rows.map(({ name }) => name))].filter((name) => NAME.test(name));
      if (names.length > 0) terminal.data(names.join('\n'));
    } catch {
      // There is nothing to complete; the command itself will say why.
    } finally {
      clearTimeout(timer);
    }
  },
};
