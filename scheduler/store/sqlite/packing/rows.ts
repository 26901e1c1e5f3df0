import type { Payload } from '../../../../lib/payload.ts';
import { deliveryHead, jobRow, type FieldColumn } from '../../../core/ports/columns.ts';
import { newJob } from '../../rows.ts';
import { isDamaged, type StoredPayload } from '../../../core/ports/stored-payload.ts';
import type { DeliveryRow, JobRow, Lease, NewDelivery, StoredState } from '../../../core/ports/store.ts';
import type { Packer, Unpacker } from './packer.ts';

/** How a column's values are packed: a number, a text, the place of one of a few in their list, 0 or 1. */
const NUMBER = 0;
const TEXT = 1;
const CODE = 2;
const FLAG = 3;
type Form = typeof NUMBER | typeof TEXT | typeof CODE | typeof FLAG;

interface PackedColumn {
  readonly field: string;
  readonly form: Form;
  readonly values: readonly unknown[];
}

function packedColumns(columns: readonly FieldColumn[], apart: readonly string[] = []): readonly PackedColumn[] {
  return columns
    .filter(({ field }) => !apart.includes(field))
    .map(({ field, kind, values = [] }) => ({ field, form: formOf(kind, values), values }));
}

function formOf(kind: FieldColumn['kind'], values: readonly unknown[]): Form {
  if (values.length > 0) return CODE;
  if (kind === 'bytes') throw new Error('bytes are packed as payloads');
  return kind === 'integer' ? NUMBER : kind === 'boolean' ? FLAG : TEXT;
}

function packColumns(out: Packer, columns: readonly PackedColumn[], row: Readonly<Record<string, unknown>>): void {
  for (const { field, form, values } of columns) {
    const value = row[field];
    if (form === NUMBER) out.number(value as number | null);
    else if (form === TEXT) out.text(value as string | null);
    else if (form === CODE) out.byte(values.indexOf(value));
    else out.byte(value === true ? 1 : 0);
  }
}

function unpackColumns(from: Unpacker, columns: readonly PackedColumn[], row: Record<string, unknown>): void {
  for (const { field, form, values } of columns) {
    if (form === NUMBER) row[field] = from.numberOrNull();
    else if (form === TEXT) row[field] = from.textOrNull();
    else if (form === CODE) row[field] = valueOf(values, from.byte());
    else row[field] = from.byte() === 1;
  }
}

function valueOf(values: readonly unknown[], code: number): unknown {
  const value = values[code];
  if (value === undefined) throw new Error(`unknown code ${code} in an encoded row`);
  return value;
}

const states = jobRow.find(({ field }) => field === 'state')?.values ?? [];

export function packState(out: Packer, state: StoredState): void {
  out.byte(states.indexOf(state as never));
}

export function unpackState(from: Unpacker): StoredState {
  return valueOf(states, from.byte()) as StoredState;
}

const jobColumns = packedColumns(jobRow, ['node', 'incarnation']);

export function packJob(out: Packer, job: JobRow): void {
  packColumns(out, jobColumns, job as unknown as Readonly<Record<string, unknown>>);
  packLease(out, job.lease);
}

export function unpackJob(from: Unpacker): JobRow {
  const job = newJob();
  unpackColumns(from, jobColumns, job);
  job['lease'] = unpackLease(from);
  return job as unknown as JobRow;
}

function packLease(out: Packer, lease: Lease | null): void {
  out.text(lease === null ? null : lease.node);
  if (lease === null) return;
  out.text(lease.incarnation);
  out.text(lease.worker);
}

function unpackLease(from: Unpacker): Lease | null {
  const node = from.textOrNull();
  return node === null ? null : { node, incarnation: from.text(), worker: from.text() };
}

/** 0 none, 1 inline, 2 in the blob store, 3 damaged. */
export function packPayload(out: Packer, payload: StoredPayload | null): void {
  if (payload === null) {
    out.byte(0);
  } else if ('damaged' in payload) {
    out.byte(3);
    out.text(payload.damaged);
  } else if ('inline' in payload) {
    out.byte(1);
    out.bytes(payload.inline);
  } else {
    out.byte(2);
    out.text(payload.blob.id);
    out.number(payload.blob.size);
  }
}

export function unpackPayload(from: Unpacker): Payload | null {
  const payload = unpackStored(from);
  if (isDamaged(payload)) throw new Error('a damaged payload is to be written');
  return payload;
}

export function unpackWholePayload(from: Unpacker): Payload {
  return present(unpackPayload(from));
}

/** Unpacks a payload that was read. */
export function unpackStored(from: Unpacker): StoredPayload | null {
  const tag = from.byte();
  if (tag === 0) return null;
  if (tag === 1) return { inline: from.bytes() };
  if (tag === 3) return { damaged: from.text() };
  return { blob: { id: from.text(), size: from.number() } };
}

export function unpackWholeStored(from: Unpacker): StoredPayload {
  return present(unpackStored(from));
}

function present<T>(payload: T | null): T {
  if (payload === null) throw new Error('an encoded payload is missing');
  return payload;
}

export function packPayloads(out: Packer, payloads: readonly StoredPayload[]): void {
  out.count(payloads.length);
  for (const payload of payloads) packPayload(out, payload);
}

export function unpackPayloads(from: Unpacker): Payload[] {
  return from.list(() => unpackWholePayload(from));
}

/** What the core creates of a delivery, and what its tries change. */
const triedFields = ['state', 'tries', 'error'];
const newDeliveryColumns = packedColumns(deliveryHead, triedFields);
const triedColumns = packedColumns(deliveryHead.filter(({ field }) => triedFields.includes(field)));

export function packNewDelivery(out: Packer, delivery: NewDelivery): void {
  packColumns(out, newDeliveryColumns, delivery as unknown as Readonly<Record<string, unknown>>);
  out.text(delivery.envelope);
}

export function unpackNewDelivery(from: Unpacker): NewDelivery {
  const delivery: Record<string, unknown> = {};
  unpackColumns(from, newDeliveryColumns, delivery);
  delivery['envelope'] = from.text();
  return delivery as unknown as NewDelivery;
}

export function packDelivery(out: Packer, delivery: DeliveryRow): void {
  packNewDelivery(out, delivery);
  packColumns(out, triedColumns, delivery as unknown as Readonly<Record<string, unknown>>);
  packPayload(out, delivery.input);
  packPayload(out, delivery.output);
}

export function unpackDelivery(from: Unpacker): DeliveryRow {
  const delivery: Record<string, unknown> = { ...unpackNewDelivery(from) };
  unpackColumns(from, triedColumns, delivery);
  return { ...(delivery as unknown as DeliveryRow), input: unpackWholeStored(from), output: unpackStored(from) };
}
