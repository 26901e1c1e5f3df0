/** Fields of nodes, their devices and what joins them. */
import { CapstanError } from '../../lib/errors.ts';
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Placed } from './control-calls.ts';
import { whole } from './endpoint-form.ts';
import { deviceHistoryMessage, deviceHistoryShape, type DeviceHistoryArguments } from './history-shape.ts';
import { attentionShape, joinTokenShape, machineTypeShape, nodeShape } from './shapes.ts';
import type { Fields } from './fields.ts';
import { firstOf, pageOf, type Optional, type Page } from './pages.ts';

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
    nodes: async (page: Page) => {
      const found = await calls.all((control) => control.listNodes, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.nodes.map((node) => ({ ...nodeShape(node), id: node.id, cell }))),
      );
    },
    node: async ({ id }: { id: string }) => {
      for (const { cell, reply } of await calls.all((control) => control.listNodes, pageOf({}))) {
        const node = reply.nodes.find((each) => each.id === id);
        if (node !== undefined) return { ...nodeShape(node), id, cell };
      }
      return null;
    },
    deviceHistory: async (given: DeviceHistoryArguments) =>
      deviceHistoryShape((await calls.any((control) => control.getDeviceHistory, deviceHistoryMessage(given))).reply),
    machineTypes: async () => (await call((control) => control.listMachineTypes, {})).machineTypes.map(machineTypeShape),
    joinTokens: async (page: Page) => {
      const found = await calls.all((control) => control.listJoinTokens, pageOf(page));
      return firstOf(
        page,
        found.flatMap(({ cell, reply }) => reply.tokens.map((token) => ({ ...joinTokenShape(token), id: token.id, cell }))),
      );
    },
    createJoinToken: async ({
      name,
      expiresInS,
      maxUses,
      neverExpires,
      cell: wanted,
    }: {
      name?: Optional<string>;
      expiresInS?: Optional<number>;
      maxUses?: Optional<number>;
      neverExpires?: Optional<boolean>;
      cell?: Optional<string>;
    }) => {
      const request = {
        name: name ?? '',
        expiresInS: whole('expiresInS', expiresInS ?? 0),
        maxUses: whole('maxUses', maxUses ?? 0),
        neverExpires: neverExpires === true,
      };
      const { cell, reply } = await changes.at(wanted ?? '', (control) => control.createJoinToken, request);
      const { joinToken, token } = reply;
      return { plaintext: joinToken, text: joinToken, token: token === undefined ? null : { ...joinTokenShape(token), cell } };
    },
    revokeJoinToken: async ({ id }: { id: string }) => {
      const { cell, reply } = await changes.any((control) => control.revokeJoinToken, { id });
      return reply.token === undefined ? null : { ...joinTokenShape(reply.token), cell };
    },
    drainNode: async ({ id }: { id: string }) => changed(await changes.any((control) => control.drainNode, { nodeId: id })),
    resumeNode: async ({ id }: { id: string }) => changed(await changes.any((control) => control.resumeNode, { nodeId: id })),
    removeNode: async ({ id, force }: { id: string; force: boolean }) => {
      await changes.any((control) => control.removeNode, { nodeId: id, force });
      return id;
    },
    assignNode: async ({ id, cell }: { id: string; cell: string }) => {
      await changes.any((control) => control.assignNode, { nodeId: id, cell });
      return id;
    },
  };
}

function changed({ cell, reply: { node } }: Placed<{ readonly node?: NodeInfo | undefined }>): object {
  if (node === undefined) throw new CapstanError('INTERNAL', 'the scheduler updated a node without returning it');
  return { ...nodeShape(node), cell };
}
