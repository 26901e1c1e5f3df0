import { printResult, type ArgumentSpec, type Command, type CommandGroup, type Invocation } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import type { NodeRow } from '../api/nodes.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { nodeCheck } from './node-check.ts';
import { nodeList } from './node-list.ts';
import { nodeTokens } from './node-token.ts';

const nodeArgument: ArgumentSpec = { name: 'node', description: 'id or name' };

/** Finds the node of the first argument. */
async function open({ args, options, env }: Invocation): Promise<{ readonly client: GatewayClient; readonly node: NodeRow }> {
  const [{ findNode }, { listNodes }] = await Promise.all([import('../api/find-node.ts'), import('../api/nodes.ts')]);
  const client = await connect(readSettings(options, env), env);
  return { client, node: findNode(await listNodes(client), args[0] ?? '') };
}

const drain: Command = {
  name: 'drain',
  summary: 'Stop assigning new work to a node. Its running jobs finish.',
  arguments: [nodeArgument],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['node drain gpu-3'],
  async run(invocation) {
    const { terminal } = invocation;
    const { client, node } = await open(invocation);
    const { changeNode } = await import('../api/nodes.ts');
    const row = await changeNode(client, 'drainNode', node.id);
    printResult(invocation, row, () => {
      terminal.done(`Draining node ${row.name}; ${row.jobs} ${row.jobs === 1 ? 'job is' : 'jobs are'} still running`);
      terminal.next('capstan node list');
    });
  },
};

const resume: Command = {
  name: 'resume',
  summary: 'Resume assigning work to a drained node.',
  arguments: [nodeArgument],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['node resume gpu-3'],
  async run(invocation) {
    const { client, node } = await open(invocation);
    const { changeNode } = await import('../api/nodes.ts');
    const row = await changeNode(client, 'resumeNode', node.id);
    printResult(invocation, row, () => invocation.terminal.done(`Resumed node ${row.name}`));
  },
};

const remove: Command = {
  name: 'remove',
  summary: 'Revoke the identity of a node. Its agent then stops.',
  aliases: ['delete'],
  arguments: [nodeArgument],
  options: [{ flags: '--force', description: 'remove it even if it has workers; their jobs move to other nodes' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  confirm: ({ args: [wanted = ''] }) => `Remove node ${wanted}? Its agent stops, and joins again only with a new token.`,
  examples: ['node remove gpu-3', 'node remove gpu-3 --force'],
  async run(invocation) {
    const { client, node } = await open(invocation);
    const { removeNode } = await import('../api/nodes.ts');
    await removeNode(client, node.id, flagOption(invocation.options, 'force'));
    printResult(invocation, { removed: node.id }, () => invocation.terminal.done(`Removed node ${node.name}`));
  },
};

/** `capstan node`: the hosts that run workers. */
export const node: CommandGroup = {
  name: 'node',
  summary: 'List, check, drain, resume and remove nodes, and manage join tokens.',
  commands: [nodeList, nodeCheck, drain, resume, remove, nodeTokens],
};
