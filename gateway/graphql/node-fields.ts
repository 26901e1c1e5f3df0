/** Fields of nodes, their devices and what joins them. */
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Placed } from './control-calls.ts';
import { whole } from './endpoint-form.ts';
import { deviceHistoryMessage, deviceHistoryShape } from './history-shape.ts';
import { attentionShape, joinTokenShape, machineTypeShape, nodeShape } from './shapes.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { firstOf, pageOf } from './pages.ts';
import { present } from './message-values.ts';

export function nodeFields({ calls, changes, call }: Fields) {
  return {
    attention: async () => {
      const found = await calls.all((control) => control.listAttention, {});
      const shown = found.flatMap(({ cell, reply }) =>
        reply.items.flatMap((item) => {
          const known = attentionShape(item, cell);
          return known === undefined ? [] : [known];
        }),
      );
      const items = found.reduce((sum, { reply }) => sum + reply.items.length + reply.omitted, 0);
      return { items: shown, omitted: items - shown.length };
    },
    nodes: async (page) => {
      const found = await calls.all((control) => control.listNodes, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.nodes.map((node) => nodeShape(node, cell))),
      );
    },
    node: async ({ id }) => {
      for (const { cell, reply } of await calls.all((control) => control.listNodes, { ...pageOf({}), nodeId: id })) {
        const node = reply.nodes.find((each) => each.id === id);
        if (node !== undefined) return nodeShape(node, cell);
      }
      return null;
    },
    deviceHistory: async (args) =>
      deviceHistoryShape((await calls.any((control) => control.getDeviceHistory, deviceHistoryMessage(args))).reply),
    machineTypes: async () => (await call((control) => control.listMachineTypes, {})).machineTypes.map(machineTypeShape),
    joinTokens: async (page) => {
      const found = await calls.all((control) => control.listJoinTokens, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.tokens.map((token) => joinTokenShape(token, cell))),
      );
    },
    createJoinToken: async ({ name, expiresInS, maxUses, neverExpires, cell: wanted }) => {
      const request = {
        name: name ?? '',
        expiresInS: whole('expiresInS', expiresInS ?? 0),
        maxUses: whole('maxUses', maxUses ?? 0),
        neverExpires: neverExpires === true,
      };
      const { cell, reply } = await changes.at(wanted ?? '', (control) => control.createJoinToken, request);
      const { joinToken, token } = reply;
      return { plaintext: joinToken, text: joinToken, token: joinTokenShape(present(token, 'join token'), cell) };
    },
    revokeJoinToken: async ({ id }) => {
      const { cell, reply } = await changes.any((control) => control.revokeJoinToken, { id });
      return joinTokenShape(present(reply.token, 'join token'), cell);
    },
    drainNode: async ({ id }) => changed(await changes.any((control) => control.drainNode, { nodeId: id })),
    resumeNode: async ({ id }) => changed(await changes.any((control) => control.resumeNode, { nodeId: id })),
    removeNode: async ({ id, force }) => {
      await changes.any((control) => control.removeNode, { nodeId: id, force: force === true });
      return id;
    },
    assignNode: async ({ id, cell }) => {
      await changes.any((control) => control.assignNode, { nodeId: id, cell });
      return id;
    },
  } satisfies Partial<Schema.Root>;
}

function changed({ cell, reply: { node } }: Placed<{ readonly node?: NodeInfo | undefined }>): Schema.Node {
  return nodeShape(present(node, 'node'), cell);
}
