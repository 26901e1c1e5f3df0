import { printResult, type Command, type CommandGroup } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { textOption, type OptionSpec } from '../../terminal/options.ts';
import { ToolError } from '../../terminal/tool-error.ts';

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
      terminal.table({ head: ['NAME', 'ACCOUNTS', 'OWNER'], rows: cells });
    });
  },
};

const create: Command = {
  name: 'create',
  summary: 'Create a cell. Its scheduler is started with CAPSTAN_CELL=<cell>. Requires PostgreSQL and an operator key.',
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
  summary: 'Move an account that has no workers and no stored jobs to another cell. Requires an operator key.',
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

const assign: Command = {
  name: 'assign-node',
  summary: 'Move a node that has no workers and no running jobs to another cell; its agent follows. Requires an operator key.',
  arguments: [{ name: 'node', description: 'id or name' }],
  options: [{ flags: '--cell <cell>', description: 'name of the cell; required' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['cell assign-node gpu-3 --cell west'],
  async run(invocation) {
    const { args, options, env, terminal } = invocation;
    const cell = textOption(options, 'cell');
    if (cell === undefined)
      throw new ToolError('INVALID_ARGUMENT', '--cell: is required', 'To list the cells: capstan cell list', { field: '--cell' });
    const [{ findNode }, { listNodes }, { assignNode }] = await Promise.all([
      import('../api/find-node.ts'),
      import('../api/nodes.ts'),
      import('../api/cells.ts'),
    ]);
    const client = await connect(readSettings(options, env), env);
    const node = findNode(await listNodes(client), args[0] ?? '');
    await assignNode(client, node.id, cell);
    printResult(invocation, { node: node.id, cell }, () => terminal.done(`Moved node ${node.name} to cell ${cell}; its agent follows`));
  },
};

/** `capstan cell`: sets of accounts and nodes, each with a scheduler that owns it. */
export const cells: CommandGroup = {
  name: 'cell',
  summary: 'List and create cells: sets of accounts and nodes, each with a scheduler of its own.',
  aliases: ['cells'],
  commands: [list, create, move, assign],
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
