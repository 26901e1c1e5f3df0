/** Cells, as the gateway returns them. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { ASSIGN_NODE, CREATE_CELL, LIST_CELLS, MOVE_ACCOUNT, type CellRow } from '../../client/graphql/gen/operations.ts';

export type { CellRow };

export async function listCells(client: GatewayClient): Promise<readonly CellRow[]> {
  return (await client.query(LIST_CELLS, {})).cells;
}

export async function createCell(client: GatewayClient, name: string): Promise<CellRow> {
  return (await client.query(CREATE_CELL, { name })).created;
}

export async function assignNode(client: GatewayClient, id: string, cell: string): Promise<void> {
  await client.query(ASSIGN_NODE, { id, cell });
}

export async function moveAccount(client: GatewayClient, id: string, cell: string): Promise<void> {
  await client.query(MOVE_ACCOUNT, { id, cell });
}
