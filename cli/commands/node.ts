import { printResult, type ArgumentSpec, type Command, type CommandGroup, type Invocation } from '../command.ts';
import { flagOption } from '../options.ts';
import type { Fleet } from '../api/fleet.ts';
import type { NodeRow } from '../api/node-row.ts';
import { GATEWAY_SETTINGS, readSettings } from '../config.ts';
import { withFleet } from '../gateway.ts';
import { nodeList } from './node-list.ts';
import { nodeTokens } from './node-token.ts';

const nodeArgument: ArgumentSpec = { name: 'node', description: 'id or name' };
const settings = [...GATEWAY_SETTINGS, 'grpcPort', 'scheduler'] as const;

/** Calls `work` with the node of the first argument. */
async function withNode<T>({ args, options, env }: Invocation, work: (fleet: Fleet, node: NodeRow) => Promise<T>): Promise<T> {
  const { findNode } = await import('../api/find-node.ts');
  return withFleet(readSettings(options, env), env, options, async (fleet) => work(fleet, findNode(await fleet.nodes(), args[0] ?? '')));
}

const drain: Command = {
  name: 'drain',
  summary: 'Stop giving new work to a node. Its running jobs finish.',
  arguments: [nodeArgument],
  settings,
  json: true,
  examples: ['node drain gpu-3'],
  async run(invocation) {
    const { terminal } = invocation;
    await withNode(invocation, async (fleet, { id, name }) => {
      const row = await fleet.drainNode(id);
      const running = row?.jobs ?? 0;
      printResult(invocation, row, () => {
        terminal.done(`Draining node ${name}; ${running} ${running === 1 ? 'job is' : 'jobs are'} still running`);
        terminal.next('capstan node list');
      });
    });
  },
};

const resume: Command = {
  name: 'resume',
  summary: 'Give new work to a drained node again.',
  arguments: [nodeArgument],
  settings,
  json: true,
  examples: ['node resume gpu-3'],
  async run(invocation) {
    await withNode(invocation, async (fleet, { id, name }) => {
      const row = await fleet.resumeNode(id);
      printResult(invocation, row, () => invocation.terminal.done(`Resumed node ${name}`));
    });
  },
};

const remove: Command = {
  name: 'remove',
  summary: 'Revoke the identity of a node. Its agent stops when it receives this.',
  aliases: ['delete'],
  arguments: [nodeArgument],
  options: [{ flags: '--force', description: 'also with workers on it; their jobs move to other nodes' }],
  settings,
  json: true,
  examples: ['node remove gpu-3', 'node remove gpu-3 --force'],
  async run(invocation) {
    await withNode(invocation, async (fleet, { id, name }) => {
      await fleet.removeNode(id, flagOption(invocation.options, 'force'));
      printResult(invocation, { removed: id }, () => invocation.terminal.done(`Removed node ${name}`));
    });
  },
};

/** `capstan node`: the hosts that run workers. */
export const node: CommandGroup = {
  name: 'node',
  summary: 'List, drain, resume and remove nodes, and manage join tokens.',
  commands: [nodeList, drain, resume, remove, nodeTokens],
};
