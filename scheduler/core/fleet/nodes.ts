/**
 * The states of a node, apart from its sessions:
 *
 *   (join token) ──join──▶ in use ──drain──▶ draining ──resume──▶ in use
 *                             └──────remove (no workers, or forced)──────▶ removed
 *
 * A draining node gets no new workers, and its workers take no new jobs: they finish their jobs and are replaced on
 * other nodes. The row of a removed node stays, so that its agent receives the reason for its rejection.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';
import { Rate } from '../../../lib/rate.ts';

import type { StepContext } from '../context.ts';
import type { Command } from '../events.ts';
import type { State } from '../state.ts';
import { rowKey } from '../state/control-rows.ts';
import { type JoinTokenRow, newNodeRecord, type NodeConfig, type NodeRecord } from '../state/fleet.ts';
import { listedWorkers } from '../references.ts';
import type { Now } from '../now.ts';
import { keepCapacity } from '../endpoints/releases.ts';
import { putRow } from '../rows.ts';
import { markNodeLost } from './sessions.ts';
import { drainWorker } from './workers.ts';

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>;

/** Nodes that may join with one token per second, and at once: each is a row that stays. */
const JOINS = { perSecond: 10, burst: 1_000 };
/** Characters of a token's hash that form its id. */
const TOKEN_ID_LENGTH = 12;

/** Returns the public id of a join token. */
export function tokenId(hash: string): string {
  return hash.slice(0, TOKEN_ID_LENGTH);
}

/** Adds a join token. A known one is left unchanged, even if revoked. */
export function putJoinToken(ctx: StepContext, call: number, command: Of<'put-join-token'>): void {
  if (ctx.state.joinTokens.has(command.hash)) {
    ctx.reply(call, { kind: 'done' });
    return;
  }
  forgetSpent(ctx);
  const { name = '', expiresInMs = null, maxUses = null, isOfFolder } = command;
  const expiresAt = expiresInMs === null ? null : ctx.now.wall + expiresInMs;
  const own = isOfFolder === undefined ? {} : { isOfFolder };
  const row: JoinTokenRow = { name, createdAt: ctx.now.wall, expiresAt, maxUses, uses: 0, revoked: false, ...own };
  ctx.state.joinTokens.set(command.hash, row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'join-token', command.hash, row));
}

/** Revoked tokens are kept: otherwise the next start would add the token in the data folder again. */
export function revokeJoinToken(ctx: StepContext, call: number, command: Of<'revoke-join-token'>): void {
  const found = [...ctx.state.joinTokens].find(([hash, { revoked }]) => !revoked && tokenId(hash) === command.id);
  if (found === undefined) {
    ctx.reply(call, new CapstanError('NOT_FOUND', `join token ${command.id} does not exist`, { field: 'id' }));
    return;
  }
  const [hash, token] = found;
  const row = { ...token, revoked: true };
  ctx.state.joinTokens.set(hash, row);
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'join-token', hash, row));
}

export function join(ctx: StepContext, call: number, command: Of<'join'>): void {
  const token = ctx.state.joinTokens.get(command.tokenHash);
  const refusal = token === undefined || token.revoked ? 'is not valid' : spent(token, ctx.now);
  if (token === undefined || refusal !== null) {
    ctx.reply(call, new CapstanError('UNAUTHENTICATED', `the join token ${refusal ?? 'is not valid'}`));
    return;
  }
  const rate = ctx.state.joinRates.get(command.tokenHash) ?? new Rate(JOINS.perSecond, JOINS.burst);
  ctx.state.joinRates.set(command.tokenHash, rate);
  if (!rate.take(ctx.now.mono)) {
    const why = `at most ${JOINS.perSecond} nodes per second may join with one token, after ${JOINS.burst} at once`;
    ctx.reply(call, new CapstanError('RATE_LIMITED', why, { retryAfterMs: 1_000 }));
    return;
  }
  const used = { ...token, uses: token.uses + 1 };
  ctx.state.joinTokens.set(command.tokenHash, used);
  putRow(ctx, 'join-token', command.tokenHash, used);
  const config: NodeConfig = { ...command.node, draining: false };
  ctx.state.nodes.set(config.id, newNodeRecord(config));
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'node', config.id, config));
}

/** Drains a node or resumes it. */
export function drainNode(ctx: StepContext, call: number, command: Of<'drain-node' | 'resume-node'>): void {
  const node = ctx.state.nodes.get(command.node);
  if (node === undefined) {
    ctx.reply(call, nodeNotFound(command.node));
    return;
  }
  const draining = command.kind === 'drain-node';
  if (node.config.draining === draining) {
    ctx.reply(call, { kind: 'done' });
    return;
  }
  node.config = { ...node.config, draining };
  ctx.state.capacityVersion++;
  const write = putRow(ctx, 'node', node.config.id, node.config);
  if (draining) drainWorkersOf(ctx.state, ctx.now, node);
  // An endpoint may be waiting for the resumed node.
  else
    for (const endpoint of ctx.state.endpoints.values()) if (endpoint.unplaced.count > 0) ctx.state.dirtyEndpoints.add(endpoint.config.id);
  const message = draining ? 'node drained' : 'node resumed';
  ctx.emit({ kind: 'log', level: 'info', message, facts: { node: node.config.id, nodeName: node.config.name } }, write);
  ctx.reply(call, { kind: 'done' }, write);
}

/** Deletes a node and revokes its identity. */
export function removeNode(ctx: StepContext, call: number, command: Of<'remove-node'>): void {
  const node = ctx.state.nodes.get(command.node);
  if (node === undefined) {
    ctx.reply(call, nodeNotFound(command.node));
    return;
  }
  const { id, name } = node.config;
  if (node.workers.size > 0 && !command.force) {
    const message = `node: ${name} has ${node.workers.size} workers; drain it first, or use force`;
    ctx.reply(call, new CapstanError('CONFLICT', message, { field: 'node' }));
    return;
  }
  const { session } = node;
  markNodeLost(ctx, node, `node ${name} removed`);
  invariant(node.workers.size === 0, 'a node that is given up has no workers', { node: id });
  ctx.state.nodes.delete(id);
  const removed = { ...node.config, removedAt: ctx.now.wall };
  ctx.state.removedNodes.set(id, removed);
  if (ctx.state.versions.has(rowKey('desired', id))) putRow(ctx, 'desired', id, null);
  const write = putRow(ctx, 'node', id, removed);
  if (session !== null) ctx.emit({ kind: 'close-session', node: id, session, reason: 'the node was removed' }, write);
  ctx.emit({ kind: 'log', level: 'info', message: 'node removed', facts: { node: id, nodeName: name } }, write);
  ctx.reply(call, { kind: 'done' }, write);
}

function drainWorkersOf(state: State, now: Now, node: NodeRecord): void {
  const workers = listedWorkers(state, node.workers);
  const reason = `node ${node.config.name} is drained`;
  for (const id of new Set(workers.map((worker) => worker.endpoint))) {
    const endpoint = state.endpoints.get(id);
    if (endpoint !== undefined) keepCapacity(state, now, endpoint, reason);
  }
  for (const worker of workers) drainWorker(state, now, worker, reason);
}

/** Returns why a token admits no more nodes, or null. */
function spent({ expiresAt, maxUses, uses }: JoinTokenRow, now: Now): string | null {
  if (expiresAt !== null && now.wall >= expiresAt) return 'has expired';
  return maxUses !== null && uses >= maxUses ? `was already used ${uses === 1 ? 'once' : `${uses} times`}, the maximum` : null;
}

/** Deletes expired and used-up tokens. Revoked ones are kept, and that of the data folder, which the next start would add anew. */
function forgetSpent(ctx: StepContext): void {
  for (const [hash, token] of ctx.state.joinTokens) {
    if (token.revoked || token.isOfFolder === true || spent(token, ctx.now) === null) continue;
    ctx.state.joinTokens.delete(hash);
    ctx.state.joinRates.delete(hash);
    putRow(ctx, 'join-token', hash, null);
  }
}

export function nodeNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `node ${id} does not exist`, { field: 'node' });
}
