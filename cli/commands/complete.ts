import type { Command } from '../command/command.ts';
import { assertNever } from '../../lib/errors.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { textOption } from '../../terminal/options.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { NAMED, type NamedKind } from '../command/named.ts';

/** Names that a shell takes as one word, without an option among them. */
const WORD = /^[\w@][\w@.:+-]{0,127}$/;

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
  arguments: [{ name: 'kind', description: 'what to list', choices: NAMED }],
  options: [{ flags: '--env <environment>', description: 'only endpoints of this environment', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  examples: ['complete endpoint'],
  async run({ args, options, env, terminal }) {
    const timer = setTimeout(() => process.exit(0), LIMIT_MS);
    try {
      const client = await connect(readSettings(options, env), env);
      const kind = NAMED.find((each) => each === args[0]) ?? 'endpoint';
      const found = await namesOf(kind, client, textOption(options, 'env') ?? null);
      const names = [...new Set(found)].filter((name) => WORD.test(name));
      if (names.length > 0) terminal.data(names.join('\n'));
    } catch {
      // There is nothing to complete; the command itself will say why.
    } finally {
      clearTimeout(timer);
    }
  },
};

async function namesOf(kind: NamedKind, client: GatewayClient, environment: string | null): Promise<string[]> {
  const control = await import('../api/control.ts');
  switch (kind) {
    case 'endpoint':
      return (await control.listEndpoints(client, environment)).map(({ name }) => name);
    case 'environment':
      return (await control.listEnvironments(client)).map(({ name }) => name);
    case 'key':
      // Keys may share a name, or have none that is a word.
      return (await control.listKeys(client, null)).map(({ id, name }) => (WORD.test(name) ? name : id));
    case 'account':
      return (await control.listAccounts(client)).map(({ id }) => id);
    case 'node':
      return (await (await import('../api/nodes.ts')).listNodes(client)).map(({ name }) => name);
    case 'secret':
      return (await (await import('../api/secrets.ts')).listSecrets(client)).map(({ name }) => name);
    default:
      return assertNever(kind);
  }
}
