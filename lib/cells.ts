/** Cells as clients name them: in the metadata of their calls, and in join tokens. */
import type { Metadata } from '@grpc/grpc-js';

/** The cell of an installation with one cell, and of calls and tokens that name none. */
export const DEFAULT_CELL = 'default';

/** A cell's name is part of join tokens, metadata, labels of metrics and names of systemd units. */
export const CELL_NAME = /^[a-z][a-z0-9-]{0,31}$/;
export const CELL_NAME_RULE = 'must be 1 to 32 lowercase letters, digits or dashes, and start with a letter';

/** Names the cell that a call is for, so that the scheduler of another one refuses it before its credentials. */
const CELL_KEY = 'capstan-cell';

/** Names the cell of a call in its metadata. */
export function nameCell(metadata: Metadata, cell: string): void {
  metadata.set(CELL_KEY, cell);
}

/** The cell that a call is for. Clients of earlier versions name none. */
export function cellOfCall(metadata: Metadata): string {
  const cell = metadata.get(CELL_KEY)[0]?.toString() ?? '';
  return cell === '' ? DEFAULT_CELL : cell;
}

/** The cell that a status names: the one to which the calling node was moved. Undefined for anything but a cell's name. */
export function cellOfStatus(metadata: Metadata | undefined): string | undefined {
  const cell = metadata?.get(CELL_KEY)[0]?.toString() ?? '';
  return CELL_NAME.test(cell) ? cell : undefined;
}

/** Service of a scheduler's health that serves while it owns this cell. */
export function cellHealth(cell: string): string {
  return `capstan.cell.${cell}`;
}

/** The text of a join token, from which an agent knows whose owner to ask. */
export function joinTokenText(cell: string, secret: string): string {
  return cell === DEFAULT_CELL ? `join_${secret}` : `join_${cell}_${secret}`;
}

/** The cell that a join token is for. */
export function cellOfJoinToken(token: string): string {
  return /^join_([a-z][a-z0-9-]{0,31})_[0-9a-f]{64}$/.exec(token)?.[1] ?? DEFAULT_CELL;
}
