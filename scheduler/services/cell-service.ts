/** Cells over gRPC: list and create. */
import { CapstanError } from '../../lib/errors.ts';
import { DEFAULT_CELL } from '../../lib/cells.ts';
import type { CellInfo, ControlServiceServer } from '../../proto/gen/capstan/v1/control.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

type CellHandlers = Pick<ControlServiceServer, 'listCells' | 'createCell'>;

export function cellHandlers({ auth, log, cells, engine }: ControlDeps): CellHandlers {
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
      if (cells === null)
        throw new CapstanError('CONFLICT', 'the queue is in SQLite, which has one cell: several need PostgreSQL (cluster.md)');
      const cell = await cells.create(name);
      changed({ cell: name });
      return cell;
    }),
  };
}
