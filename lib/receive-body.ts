/**
 * Receives a request's body into memory. It reserves the memory in steps as bytes arrive, so that an announced length
 * costs nothing, and copies the bytes into blocks, so that a body in many tiny pieces needs no extra memory.
 */
import type { Readable } from 'node:stream';

import type { Reservation, BudgetShortage } from './shared-budget.ts';
import type { UploadMonitor } from './upload-monitor.ts';

export type BodyFault = 'too-large' | 'too-slow' | 'broken' | 'party-full' | 'memory-full';

export interface ReceiveOptions {
  /** Value of Content-Length; undefined for a chunked body. */
  readonly declared: number | undefined;
  readonly maxBytes: number;
  /** Holds the body's memory; the caller releases it. */
  readonly reservation: Reservation;
  readonly monitor: UploadMonitor;
}

/** The first block of memory, bytes; later ones double it. */
const STEP_BYTES = 64 * 1024;
const EMPTY = Buffer.alloc(0);

/** Calls `done` once. After an error the rest of the stream is unread and has no listener. */
export function receiveBody(stream: Readable, options: ReceiveOptions, done: (fault: BodyFault | null, body: Buffer) => void): void {
  const { declared, maxBytes, reservation, monitor } = options;
  if ((declared ?? 0) > maxBytes) {
    done('too-large', EMPTY);
    return;
  }
  let block: Buffer = EMPTY;
  let filled = 0;
  let isOver = false;
  const meter = monitor.watch(() => finish('too-slow'));

  function finish(fault: BodyFault | null): void {
    if (isOver) return;
    isOver = true;
    meter.end();
    // The listener of errors stays: a connection that breaks later must not raise an unhandled one. After the end no more data comes, and
    // removing the others would cost as much as adding them.
    if (fault !== null) {
      stream.off('data', onData).off('end', onEnd).off('close', onBroken);
      stream.pause();
    }
    const body = fault !== null ? EMPTY : filled === block.length ? block : block.subarray(0, filled);
    block = EMPTY;
    done(fault, body);
  }

  function onData(chunk: Buffer): void {
    meter.count(chunk.length);
    const bytes = filled + chunk.length;
    if (bytes > maxBytes) {
      finish('too-large');
      return;
    }
    if (bytes > block.length) {
      // A body that arrived in one piece needs no copy.
      const whole = filled === 0 && chunk.length === declared;
      const capacity = whole ? bytes : Math.min(Math.max(2 * block.length, bytes, STEP_BYTES), Math.max(declared ?? maxBytes, bytes));
      const shortage = reservation.resize(capacity);
      if (shortage !== null) {
        finish(faultOf(shortage));
        return;
      }
      if (whole) {
        block = chunk;
        filled = bytes;
        return;
      }
      const grown = Buffer.allocUnsafeSlow(capacity);
      block.copy(grown, 0, 0, filled);
      block = grown;
    }
    chunk.copy(block, filled);
    filled = bytes;
  }

  const onEnd = (): void => finish(null);
  const onBroken = (): void => finish('broken');
  stream.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
}

function faultOf(shortage: BudgetShortage): BodyFault {
  return shortage === 'party' ? 'party-full' : 'memory-full';
}
