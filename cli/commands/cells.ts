import { printResult, type Command, type CommandGroup } from '../command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../config.ts';
import { connect } from '../gateway.ts';
import type { OptionSpec } from '../options.ts';
import { renderTable } from '../terminal/table.ts';

const list: Command = {
  name: 'list',
  summary: 'List the cells. Requires an operator key.',
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['cell list'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const { listCells } = await import('../api/cells.ts');
    const rows = await listCells(await connect(readSettings(options, env), env));
    printResult(invocation, rows, () => {
      const cells = rows.map(({ name, accounts, address }) => [name, String(accounts), address ?? '']);
      terminal.data(renderTable(['NAME', 'ACCOUNTS', 'OWNER'], cells));
    });
  },
};

const create: Command = {
  name: 'create',
  summary: 'Create a cell, for which a scheduler is started with CAPSTAN_CELL. Needs PostgreSQL. Requires an operator key.',
  arguments: [{ name: 'cell', description: 'name of the cell: lowercase letters, digits and dashes' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['cell create west'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const { createCell } = await import('../api/cells.ts');
    const cell = await createCell(await connect(readSettings(options, env), env), args[0] ?? '');
    printResult(invocation, cell, () => {
      terminal.done(`Created cell ${cell.name}`);
      terminal.next(`CAPSTAN_CELL=${cell.name} capstan scheduler`);
    });
  },
};

const move: Command = {
  name: 'move-account',
  summary: 'Move an account without workers and stored jobs to another cell. Requires an operator key.',
  arguments: [
    { name: 'account', description: 'id of the account' },
    { name: 'cell', description: 'name of the cell' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['cell move-account team west'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const [account = '', cell = ''] = args;
    const { moveAccount } = await import('../api/cells.ts');
    await moveAccount(await connect(readSettings(options, env), env), account, cell);
    printResult(invocation, { account, cell }, () => terminal.done(`Moved account ${account} to cell ${cell}`));
  },
};

/** `capstan cell`: sets of accounts and nodes, each with a scheduler that owns it. */
export const cells: CommandGroup = {
  name: 'cell',
  summary: 'List and create cells: sets of accounts and nodes, each with a scheduler of its own.',
  aliases: ['cells'],
  commands: [list, create, move],
};

/** The option that names a cell. */
export const cellOption = (what: string): OptionSpec => ({
  flags: '--cell <cell>',
  description: what,
  default: 'the cell of the API key',
});

/** A column of cells for a table, which only an installation with several of them needs. */
export function cellColumn(rows: readonly { readonly cell: string }[]): {
  readonly head: string[];
  readonly of: (cell: string) => string[];
} {
  return rows.some(({ cell }) => cell !== 'default') ? { head: ['CELL'], of: (cell) => [cell] } : { head: [], of: () => [] };
}
