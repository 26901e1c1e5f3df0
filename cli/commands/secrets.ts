import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';

import { CapstanError } from '../../lib/errors.ts';
import { MAX_SECRET_BYTES } from '../../lib/secret-references.ts';
import { messageOf } from '../../lib/to-error.ts';
import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { ageOf } from '../../terminal/age.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const secretArgument = { name: 'secret', description: 'its name: letters, digits and underscores' };
const environmentOption = {
  flags: '--env <environment>',
  description: "only for endpoints of this environment, before the account's secret of the same name",
  default: 'every environment',
};

const set: Command = {
  name: 'set',
  summary: 'Create a secret, or replace its value: workers that use it are replaced. Reads the value from stdin or a file.',
  arguments: [secretArgument],
  options: [{ flags: '--file <path>', description: 'read the value from a file', default: 'stdin' }, environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['secret set HF_TOKEN < token', 'secret set TLS_KEY --file key.pem --env staging'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const value = await valueFrom(textOption(options, 'file'), args[0] ?? '');
    const { setSecret } = await import('../api/secrets.ts');
    const client = await connect(readSettings(options, env), env);
    const secret = await setSecret(client, { name: args[0] ?? '', environment: textOption(options, 'env') ?? null, value });
    printResult(invocation, secret, () => {
      const { usedBy } = secret;
      const replaced = usedBy.length === 0 ? '' : `; workers of ${usedBy.join(', ')} are replaced`;
      terminal.done(`Set secret ${nameOf(secret)}${replaced}`);
    });
  },
};

const list: Command = {
  name: 'list',
  summary: 'List the secrets, without their values.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['secret list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listSecrets } = await import('../api/secrets.ts');
    const rows = await listSecrets(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        row.name,
        row.environment ?? '(all)',
        ageOf(row.createdAt),
        `${ageOf(row.changedAt)} ago`,
        row.usedBy.join(', '),
      ]);
      terminal.table({
        head: ['NAME', 'ENVIRONMENT', 'AGE', 'CHANGED', 'USED BY'],
        rows: cells,
        optional: ['AGE', 'CHANGED'],
        cut: ['USED BY'],
      });
      if (rows.length === 0) terminal.next('capstan secret set <name> < <file>');
    });
  },
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete a secret that no endpoint uses.',
  arguments: [secretArgument],
  options: [environmentOption],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [secret = ''] }) => `Delete secret ${secret}?`,
  examples: ['secret delete HF_TOKEN'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { deleteSecret } = await import('../api/secrets.ts');
    const client = await connect(readSettings(options, env), env);
    const deleted = await deleteSecret(client, { name: args[0] ?? '', environment: textOption(options, 'env') ?? null });
    printResult(invocation, deleted, () => terminal.done(`Deleted secret ${nameOf(deleted)}`));
  },
};

/** The value is never an argument: other users of the host, and the shell's history, would see it. */
async function valueFrom(file: string | undefined, secret: string): Promise<string> {
  if (file === undefined && process.stdin.isTTY)
    throw new ToolError(
      'INVALID_ARGUMENT',
      'value: is read from stdin or a file',
      `Pass it on stdin: capstan secret set ${secret} < <file>`,
      {
        field: 'value',
      },
    );
  const value = file === undefined ? await text(process.stdin) : await contentOf(file);
  if (Buffer.byteLength(value) > MAX_SECRET_BYTES + 2)
    throw new CapstanError('INVALID_ARGUMENT', `value: must have at most ${MAX_SECRET_BYTES} bytes`, { field: 'value' });
  // Editors and echo end a line; a value with several lines keeps its own end.
  return /^[^\r\n]*\r?\n$/.test(value) ? value.replace(/\r?\n$/, '') : value;
}

async function contentOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new CapstanError('INVALID_ARGUMENT', `--file: ${messageOf(error)}`, { field: 'file', cause: error });
  }
}

function nameOf({ name: known, environment }: { readonly name: string; readonly environment: string | null }): string {
  return environment === null ? known : `${known} of environment ${environment}`;
}

/** `capstan secret`: values that environments of endpoints refer to by name. */
export const secrets: CommandGroup = {
  name: 'secret',
  summary: 'Set, list and delete secrets for the environments of endpoints.',
  commands: [set, list, remove],
};
