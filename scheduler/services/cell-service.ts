/** Cells over gRPC: they are listed and created, and accounts and nodes are moved between them. */
import { randomBytes } from 'node:crypto';

import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { DEFAULT_CELL } from '../../lib/cells.ts';
import type { CellInfo, ControlServiceServer } from '../../proto/gen/capstan/v1/control.ts';
import { accountExists, accountNotFound } from '../core/control/keys.ts';
import { nodeNotFound } from '../core/fleet/nodes.ts';
import type { State } from '../core/state.ts';
import { auditRow, type AuditPut, type LastEntry } from '../core/audit.ts';
import { DEFAULT_ACCOUNT } from './auth.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

type CellHandlers = Pick<ControlServiceServer, 'listCells' | 'createCell' | 'moveAccount' | 'assignNode'>;

/** Of a name in the key of an entry. */
const UNIQUE_BYTES = 6;

export function cellHandlers({ auth, log, cells, engine, clock }: ControlDeps): CellHandlers {
  const lastMove: LastEntry = { at: 0, number: 0 };
  /** Of a move: it writes the entry itself, without the state that the others are written with. */
  const moved = (action: string, object: string, cell: string, metadata: Metadata): AuditPut => {
    const entry = entryOf(auth, metadata, { action, object, before: { cell: cells?.own }, after: { cell } });
    return auditRow(lastMove, randomBytes(UNIQUE_BYTES).toString('hex'), clock.now(), entry);
  };
  return {
    listCells: unary(log, 'ListCells', async (_request, metadata) => {
      if (auth.identify(metadata).role !== 'gateway') auth.operator(metadata);
      if (cells !== null) return { cells: await cells.list() };
      const only: CellInfo = { name: DEFAULT_CELL, accounts: Math.max(1, engine.state.accounts.size), address: '' };
      return { cells: [only] };
    }),
    createCell: unary(log, 'CreateCell', async ({ name }, metadata) => {
      auth.operator(metadata);
      const changed = auth.auditor(log, metadata, 'CreateCell');
      if (cells === null) throw oneCell();
      const audit = entryOf(auth, metadata, { action: 'createCell', object: name });
      const cell = await cells.create(name);
      await engine.command({ kind: 'audit' }, audit);
      changed({ cell: name });
      return cell;
    }),
    moveAccount: unary(log, 'MoveAccount', async ({ id, cell }, metadata) => {
      auth.operator(metadata);
      const changed = auth.auditor(log, metadata, 'MoveAccount');
      if (cells === null) throw oneCell();
      if (!accountExists(engine.state, id)) throw accountNotFound(id, 'id');
      if (id === DEFAULT_ACCOUNT)
        throw new CapstanError('INVALID_ARGUMENT', `id: the account ${id} cannot be moved: its keys operate the service`, { field: 'id' });
      if (cell === cells.own) throw new CapstanError('CONFLICT', `cell: account ${id} is already in ${cell}`, { field: 'cell' });
      const move = { account: id, to: cell };
      mustBeIdle(engine.state, id);
      await cells.checkAccountMove(move);
      const audit = moved('moveAccount', id, cell, metadata);
      await engine.withoutState(
        (state) => mustBeIdle(state, id),
        () => cells.moveAccount(move, audit),
      );
      changed({ account: id, cell });
      return {};
    }),
    assignNode: unary(log, 'AssignNode', async ({ nodeId, cell }, metadata) => {
      auth.operator(metadata);
      const changed = auth.auditor(log, metadata, 'AssignNode');
      if (cells === null) throw oneCell();
      const node = engine.state.nodes.get(nodeId);
      if (node === undefined) throw nodeNotFound(nodeId);
      const { name } = node.config;
      if (cell === cells.own)
        throw new CapstanError('CONFLICT', `cell: node ${name} already belongs to the cell ${cell}`, { field: 'cell' });
      const move = { node: nodeId, to: cell };
      nodeMustBeIdle(engine.state, nodeId);
      await cells.checkNodeMove(move);
      const audit = moved('assignNode', name, cell, metadata);
      await engine.withoutState(
        (state) => nodeMustBeIdle(state, nodeId),
        () => cells.moveNode(move, audit),
      );
      changed({ node: nodeId, cell });
      return {};
    }),
  };
}

function oneCell(): CapstanError {
  return new CapstanError('CONFLICT', 'the queue is in SQLite, which supports one cell; several require PostgreSQL (cluster.md)');
}

/** @throws CapstanError CONFLICT, naming the endpoints whose workers or requests keep the account. */
function mustBeIdle(state: State, account: string): void {
  const endpoints = new Map(
    [...state.endpoints.values()].filter(({ config }) => config.account === account).map(({ config }) => [config.id, config.name]),
  );
  const working = new Map<string, number>();
  for (const { endpoint } of state.workers.values()) {
    const name = endpoints.get(endpoint);
    if (name !== undefined) working.set(name, (working.get(name) ?? 0) + 1);
  }
  if (working.size === 0) return;
  const list = [...working].map(([name, count]) => `${name} (${count})`).join(', ');
  const why = `account: ${account} has workers: ${list}; set workersMin and workersMax of these endpoints to 0 first`;
  throw new CapstanError('CONFLICT', why, { field: 'id' });
}

/** @throws CapstanError NOT_FOUND, or CONFLICT, naming what keeps the node. */
function nodeMustBeIdle(state: State, id: string): void {
  const node = state.nodes.get(id);
  if (node === undefined) throw nodeNotFound(id);
  const refuse = (why: string): CapstanError => new CapstanError('CONFLICT', `node: ${node.config.name} ${why}`, { field: 'node' });
  const { size } = node.workers;
  if (size > 0) throw refuse(`has ${size} ${size === 1 ? 'worker' : 'workers'}; drain it and wait until they are gone`);
  if (node.usage.orphans.size > 0) throw refuse('still has workers that are stopping; try again');
}
