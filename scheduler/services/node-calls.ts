/** The calls of ControlService for nodes and join tokens. */
import { randomBytes } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import type { ControlServiceServer, JoinTokenInfo, NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { NodeRecord } from '../core/state/fleet.ts';
import { tokenId } from '../core/fleet/nodes.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import { DEFAULT_CELL, joinTokenText } from '../../lib/cells.ts';
import { hashKey } from '../secrets/hash.ts';
import type { Cells } from '../store/cells.ts';
import type { Authorizer } from './auth.ts';
import type { AuditEntry } from '../core/audit.ts';
import { entryOf, type Change } from './audit.ts';
import { unary } from './calls.ts';
import { lastSeen, nodeInfo, tokenInfos } from './fleet-view.ts';
import { machineTypes } from './machine-types.ts';
import { pageOf } from './page.ts';
import { sharedNodeInfo } from './shared-hosts.ts';
import { checkShownName } from './shown-name.ts';

export interface NodeCallDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly cells: Cells | null;
  /** Called after a node was removed, durably. */
  readonly onNodeRemoved: () => void;
}

type NodeCalls = Pick<
  ControlServiceServer,
  'listNodes' | 'listMachineTypes' | 'createJoinToken' | 'listJoinTokens' | 'revokeJoinToken' | 'drainNode' | 'resumeNode' | 'removeNode'
>;

/** Validity of a token whose creator does not say how long. */
const DEFAULT_EXPIRY_S = 86_400;
/** Nodes that may join with a token whose creator does not say how many. */
const DEFAULT_USES = 100;

export function nodeCalls({ engine, auth, clock, log, cells, onNodeRemoved }: NodeCallDeps): NodeCalls {
  const operator = <Request, Reply>(
    name: string,
    handler: (
      request: Request,
      changed: ReturnType<Authorizer['auditor']>,
      audit: (object: string, facts?: Pick<Change, 'before' | 'after'>) => AuditEntry,
    ) => Promise<Reply> | Reply,
  ) =>
    unary<Request, Reply>(log, name, (request, metadata) => {
      auth.operator(metadata);
      const action = `${name.charAt(0).toLowerCase()}${name.slice(1)}`;
      return handler(request, auth.auditor(log, metadata, name), (object, facts) => entryOf(auth, metadata, { action, object, ...facts }));
    });
  const whole = (node: NodeRecord): NodeInfo => ({ ...nodeInfo(engine.state, node), ...lastSeen(node, clock.now()) });
  const shown = (id: string): { node?: NodeInfo } => {
    const node = engine.state.nodes.get(id);
    return node === undefined ? {} : { node: whole(node) };
  };
  const nodeName = (id: string): string => engine.state.nodes.get(id)?.config.name ?? id;
  const tokenNamed = (id: string): JoinTokenInfo | undefined => tokenInfos(engine.state).find((token) => token.id === id);
  return {
    listNodes: unary(log, 'ListNodes', (request, metadata) => {
      const { account, operator: sees } = auth.wholeReader(metadata);
      const { state } = engine;
      const info = (node: NodeRecord): NodeInfo => (sees ? whole(node) : sharedNodeInfo(state, node, account));
      const { nodeId } = request;
      const listed = nodeId === undefined ? [...state.nodes.values()] : [state.nodes.get(nodeId)].filter((node) => node !== undefined);
      const infos = listed.map(info).filter(({ workers }) => sees || workers > 0);
      return { nodes: pageOf(infos, request) };
    }),
    listMachineTypes: unary(log, 'ListMachineTypes', (_request, metadata) => {
      auth.wholeReader(metadata);
      return { machineTypes: machineTypes(engine.state) };
    }),
    createJoinToken: operator('CreateJoinToken', async ({ name, expiresInS, maxUses, neverExpires }, changed, audit) => {
      checkShownName(name, { mayBeEmpty: true });
      if (neverExpires && expiresInS !== 0)
        throw new CapstanError('INVALID_ARGUMENT', 'expiresInS: must not be given for a token that never expires', { field: 'expiresInS' });
      const joinToken = joinTokenText(cells?.own ?? DEFAULT_CELL, randomBytes(32).toString('hex'));
      const hash = hashKey(joinToken).toString('hex');
      const expiresInMs = neverExpires ? null : (expiresInS === 0 ? DEFAULT_EXPIRY_S : expiresInS) * 1_000;
      const token = { name, expiresInMs, maxUses: maxUses === 0 ? DEFAULT_USES : maxUses };
      await engine.command({ kind: 'put-join-token', hash, ...token }, audit(tokenId(hash), { after: token }));
      changed({ token: tokenId(hash) });
      return { joinToken, id: tokenId(hash), token: tokenNamed(tokenId(hash)) };
    }),
    listJoinTokens: operator('ListJoinTokens', (request) => ({ tokens: pageOf(tokenInfos(engine.state), request) })),
    revokeJoinToken: operator('RevokeJoinToken', async ({ id }, changed, audit) => {
      const token = tokenNamed(id);
      await engine.command({ kind: 'revoke-join-token', id }, audit(id, { before: { name: token?.name } }));
      changed({ token: id });
      return { token };
    }),
    drainNode: operator('DrainNode', async ({ nodeId }, changed, audit) => {
      await engine.command({ kind: 'drain-node', node: nodeId }, audit(nodeName(nodeId)));
      changed({ node: nodeId });
      return shown(nodeId);
    }),
    resumeNode: operator('ResumeNode', async ({ nodeId }, changed, audit) => {
      await engine.command({ kind: 'resume-node', node: nodeId }, audit(nodeName(nodeId)));
      changed({ node: nodeId });
      return shown(nodeId);
    }),
    removeNode: operator('RemoveNode', async ({ nodeId, force }, changed, audit) => {
      await engine.command({ kind: 'remove-node', node: nodeId, force }, audit(nodeName(nodeId), { after: { force } }));
      changed({ node: nodeId, force });
      onNodeRemoved();
      return {};
    }),
  };
}
