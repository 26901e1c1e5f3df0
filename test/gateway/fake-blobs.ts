/** BlobService of the fake scheduler: bodies in memory. */
import type { EventEmitter } from 'node:events';

import type { ServerWritableStream } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import type { BlobServiceServer, GetBlobRequest, GetBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import type { Payload } from '../../proto/gen/capstan/v1/common.ts';

export type BodyCall = ServerWritableStream<GetBlobRequest, GetBlobResponse>;

/** What the service reads of the scheduler that it belongs to, at each call. */
export interface BlobHolder {
  readonly blobs: ReadonlyMap<string, Buffer>;
  readonly events: EventEmitter;
  readonly onBody: (call: BodyCall, bytes: Buffer) => boolean;
  putBlob(bytes: Buffer): Payload;
}

export function blobService(scheduler: BlobHolder): BlobServiceServer {
  return {
    stat: (call, callback) => {
      const bytes = scheduler.blobs.get(call.request.id);
      callback(null, { exists: bytes !== undefined, size: bytes?.length ?? 0, received: 0 });
    },
    put: (call, callback) => {
      const frames: Buffer[] = [];
      call.on('data', (message: { part?: { $case: string; value: unknown } }) => {
        if (message.part?.$case === 'data') frames.push(message.part.value as Buffer);
      });
      call.on('end', () => {
        // Of a call that was given up, it ends what has come so far.
        if (call.cancelled) return;
        const payload = scheduler.putBlob(Buffer.concat(frames));
        const ref = payload.body?.$case === 'blob' ? payload.body.value : { id: '', size: 0 };
        callback(null, { ...ref, existed: false, received: ref.size });
        scheduler.events.emit(
          'blob-put',
          frames.map((frame) => frame.length),
        );
      });
    },
    get: (call) => {
      const bytes = scheduler.blobs.get(call.request.id);
      scheduler.events.emit('blob-get', call.request.id);
      if (bytes === undefined) {
        call.emit('error', toStatus(new CapstanError('NOT_FOUND', 'the body is gone')));
        return;
      }
      call.write({ part: { $case: 'size', value: bytes.length } });
      if (scheduler.onBody(call, bytes)) return;
      for (let at = 0; at < bytes.length; at += 256 * 1024)
        call.write({ part: { $case: 'data', value: bytes.subarray(at, at + 256 * 1024) } });
      call.end();
    },
  };
}
