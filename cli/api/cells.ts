/** Cells, as the gateway returns them. */
import type { GatewayClient } from './gateway-client.ts';

export interface CellRow {
  readonly name: string;
  /** Accounts that live in it, deleted ones included. */
  readonly accounts: number;
  /** Where the scheduler is reached that owned it last; null before the first. */
  readonly address: string | null;
}

const CELL = 'name accounts address';

export async function listCells(client: GatewayClient): Promise<CellRow[]> {
  return (await client.query<{ cells: CellRow[] }>(`{ cells { ${CELL} } }`)).cells;
}

export async function createCell(client: GatewayClient, name: string): Promise<CellRow> {
  const query = `mutation ($name: String!) { created: createCell(name: $name) { ${CELL} } }`;
  return (await client.query<{ created: CellRow }>(query, { name })).created;
}

export async function assignNode(client: GatewayClient, id: string, cell: string): Promise<void> {
  await client.query('mutation ($id: ID!, $cell: String!) { assignNode(id: $id, cell: $cell) }', { id, cell });
}

export async function moveAccount(client: GatewayClient, id: string, cell: string): Promise<void> {
  await client.query('mutation ($id: ID!, $cell: String!) { moveAccount(id: $id, cell: $cell) }', { id, cell });
}
