/**
 * The life of a node beside its sessions:
 *
 *   (join token) ──join──▶ in use ──drain──▶ draining ──resume──▶ in use
 *                             └──────remove (no workers, or forced)──────▶ removed
 *
 * A draining node gets no worker, and those it has take no new job: they finish what they hold and
 * are replaced elsewhere. A removed node leaves a row behind, by which its agent is told why it is
 * refused.
 */
import { CapstanError } from '../../proto/errors.ts';

import type { StepResult } from './effects.ts';
import type { Command } from './events.ts';
import type { State } from './image.ts';
import { rowKey } from './image/control-rows.ts';
import { type JoinTokenRow, newNodeRecord, type NodeConfig, type NodeRecord } from './image/fleet.ts';
import type { Now } from './now.ts';
import { keepCapacity } from './rollout.ts';
import { putRow } from './rows.ts';
import { giveUpNode } from './sessions.ts';
import { drainWorker } from './workers.ts';

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>;

/** Characters of a token's hash that people name it by. */
const tokenIdLength = 12;

/** What people call a join token by. */
export function tokenId(hash: string): string {
  return hash.slice(0, tokenIdLength);
}

/** Adds a join token; one that is known stays as it is, revoked ones too. */
export function putJoinToken(image: State, out: StepResult, now: Now, call: number, command: Of<'put-join-token'>): void {
  if (image.joinTokens.has(command.hash)) {
    out.do({ kind: 'answer', call, result: { kind: 'done' } });
    return;
  }
  forgetSpent(image, out, now);
  const { name = '', expiresAt = null, maxUses = null } = command;
  const row: JoinTokenRow = { name, createdAt: now.wall, expiresAt, maxUses, uses: 0, revoked: false };
  image.joinTokens.set(command.hash, row);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'join-token', command.hash, row));
}

/** Revoked tokens are kept: the one in the data folder would come back with the next start. */
export function revokeJoinToken(image: State, out: StepResult, call: number, command: Of<'revoke-join-token'>): void {
  const found = [...image.joinTokens].find(([hash, { revoked }]) => !revoked && tokenId(hash) === command.id);
  if (found === undefined) {
    out.do({ kind: 'answer', call, result: new CapstanError('NOT_FOUND', `there is no join token ${command.id}`, { field: 'id' }) });
    return;
  }
  const [hash, token] = found;
  const row = { ...token, revoked: true };
  image.joinTokens.set(hash, row);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'join-token', hash, row));
}

export function join(image: State, out: StepResult, now: Now, call: number, command: Of<'join'>): void {
  const token = image.joinTokens.get(command.tokenHash);
  const refusal = token === undefined || token.revoked ? 'is not valid' : spent(token, now);
  if (token === undefined || refusal !== null) {
    out.do({ kind: 'answer', call, result: new CapstanError('UNAUTHENTICATED', `the join token ${refusal ?? 'is not valid'}`) });
    return;
  }
  const used = { ...token, uses: token.uses + 1 };
  image.joinTokens.set(command.tokenHash, used);
  putRow(image, out, 'join-token', command.tokenHash, used);
  const config: NodeConfig = { ...command.node, draining: false };
  image.nodes.set(config.id, newNodeRecord(config));
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, putRow(image, out, 'node', config.id, config));
}

/** Takes a node out of use, or back into it. */
export function drainNode(image: State, out: StepResult, now: Now, call: number, command: Of<'drain-node' | 'resume-node'>): void {
  const node = image.nodes.get(command.node);
  if (node === undefined) {
    out.do({ kind: 'answer', call, result: noNode(command.node) });
    return;
  }
  const draining = command.kind === 'drain-node';
  if (node.config.draining === draining) {
    out.do({ kind: 'answer', call, result: { kind: 'done' } });
    return;
  }
  node.config = { ...node.config, draining };
  image.capacity++;
  const write = putRow(image, out, 'node', node.config.id, node.config);
  if (draining) emptyNode(image, now, node);
  // A node that is back may be what some endpoint waits for.
  else for (const endpoint of image.endpoints.values()) if (endpoint.unplaced.count > 0) image.dirtyEndpoints.add(endpoint.config.id);
  const message = draining ? 'node drained' : 'node resumed';
  out.do({ kind: 'log', level: 'info', message, facts: { node: node.config.id, nodeName: node.config.name } }, write);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, write);
}

/** Forgets a node and revokes its identity. */
export function removeNode(image: State, out: StepResult, now: Now, call: number, command: Of<'remove-node'>): void {
  const node = image.nodes.get(command.node);
  if (node === undefined) {
    out.do({ kind: 'answer', call, result: noNode(command.node) });
    return;
  }
  const { id, name } = node.config;
  if (node.workers.size > 0 && !command.force) {
    const message = `node: ${name} has ${node.workers.size} workers: drain it first, or remove it by force`;
    out.do({ kind: 'answer', call, result: new CapstanError('CONFLICT', message, { field: 'node' }) });
    return;
  }
  const { session } = node;
  giveUpNode(image, out, now, node, `node ${name} removed`);
  image.nodes.delete(id);
  const removed = { ...node.config, removedAt: now.wall };
  image.removedNodes.set(id, removed);
  if (image.versions.has(rowKey('desired', id))) putRow(image, out, 'desired', id, null);
  const write = putRow(image, out, 'node', id, removed);
  if (session !== null) out.do({ kind: 'close-session', node: id, session, reason: 'the node was removed' }, write);
  out.do({ kind: 'log', level: 'info', message: 'node removed', facts: { node: id, nodeName: name } }, write);
  out.do({ kind: 'answer', call, result: { kind: 'done' } }, write);
}

function emptyNode(image: State, now: Now, node: NodeRecord): void {
  const workers = [...node.workers].flatMap((id) => image.workers.get(id) ?? []);
  const reason = `node ${node.config.name} is drained`;
  for (const id of new Set(workers.map((worker) => worker.endpoint))) {
    const endpoint = image.endpoints.get(id);
    if (endpoint !== undefined) keepCapacity(image, now, endpoint, reason);
  }
  for (const worker of workers) drainWorker(image, now, worker, reason);
}

/** Why a token lets no node join any more, or null. */
function spent({ expiresAt, maxUses, uses }: JoinTokenRow, now: Now): string | null {
  if (expiresAt !== null && now.wall >= expiresAt) return 'has expired';
  return maxUses !== null && uses >= maxUses ? `was used ${uses === 1 ? 'once' : `${uses} times`}, as often as it may be` : null;
}

/** Tokens that nobody can use are of no use to anyone. */
function forgetSpent(image: State, out: StepResult, now: Now): void {
  for (const [hash, token] of image.joinTokens) {
    if (token.revoked || spent(token, now) === null) continue;
    image.joinTokens.delete(hash);
    putRow(image, out, 'join-token', hash, null);
  }
}

function noNode(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `there is no node ${id}`, { field: 'node' });
}
