/**
 * A payload is one JSON document of a job: its input, its output, its progress or one chunk of its stream. Every part
 * uses this type and moves the bytes without parsing them. Up to {@link MAX_INLINE_BYTES} the bytes travel with the
 * message or row; a larger document is stored in the blob store first and travels as a reference.
 *
 * Each border has one conversion:
 *
 * | Border | Conversion |
 * |---|---|
 * | protobuf | `toPayloadMessage`, `fromPayloadMessage` (below) |
 * | store row | `payloadColumns`, `fromPayloadColumns` (scheduler/store/rows.ts) |
 * | store thread | `packPayload`, `unpackPayload` (scheduler/store/sqlite/packing/rows.ts) |
 * | body of an HTTP request | `takePayload` (gateway/http/request-payload.ts) |
 * | body of an HTTP response | `statusParts`, `streamParts` (gateway/http/answer.ts) |
 * | bytes of a worker | `acceptDispatch`, `handlerEnded`, `addChunk` (agent/core/attempts.ts), `BlobTransfer` (agent/blobs/) |
 *
 * An absent payload is `undefined` in all parts, `null` inside the scheduler.
 */
import type { BlobRef, Payload as PayloadMessage } from '../proto/gen/capstan/v1/common.ts';
import { KEPT_BUFFER_BYTES, ownedCopy } from './owned-copy.ts';

/** The longest document that travels inline, bytes. */
export const MAX_INLINE_BYTES = 64 * 1024;

/** A document in the blob store. */
export type BlobReference = Readonly<BlobRef>;

/** A JSON document in UTF-8. */
export type Payload = { readonly inline: Uint8Array } | { readonly blob: BlobReference };

/** Length of the document in bytes, inline or stored. */
export function payloadBytes(payload: Payload): number {
  return 'inline' in payload ? payload.inline.length : payload.blob.size;
}

/** Bytes that travel with the message or row. */
export function inlineBytes(payload: Payload | null | undefined): number {
  return payload != null && 'inline' in payload ? payload.inline.length : 0;
}

/** Bytes in the blob store. */
export function blobBytes(payload: Payload | null | undefined): number {
  return payload != null && 'blob' in payload ? payload.blob.size : 0;
}

/** Memory of a kept payload, bytes; a document in the blob store needs only its id. */
export function memoryBytes(payload: Payload): number {
  return KEPT_BUFFER_BYTES + ('inline' in payload ? payload.inline.length : payload.blob.id.length);
}

/** Copies the payload into its own memory, so that it can be kept longer than its message. */
export function ownPayload(payload: Payload): Payload {
  return 'inline' in payload ? { inline: ownedCopy(payload.inline) } : payload;
}

/** The same bytes as a Buffer, not copied. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function toPayloadMessage(payload: Payload): PayloadMessage {
  return 'inline' in payload
    ? { body: { $case: 'inline', value: asBuffer(payload.inline) } }
    : { body: { $case: 'blob', value: payload.blob } };
}

/** Returns undefined for an absent message and for one without a body. */
export function fromPayloadMessage(message: PayloadMessage | undefined): Payload | undefined {
  switch (message?.body?.$case) {
    case 'inline':
      return { inline: message.body.value };
    case 'blob':
      return { blob: message.body.value };
    case undefined:
      return undefined;
  }
}

/** Approximate size of a reference in a message, bytes. */
const REFERENCE_BYTES = 64;

/** Returns the size of a payload in a message, bytes; batches and connections are limited by it. */
export function messageBytes(message: PayloadMessage | undefined): number {
  switch (message?.body?.$case) {
    case 'inline':
      return message.body.value.length;
    case 'blob':
      return REFERENCE_BYTES;
    case undefined:
      return 0;
  }
}
