/**
 * BlobService over the file store: big bodies on connections of their own, so that they hold up
 * nothing else. Flow control goes through in both directions: a slow disk slows the sender, a slow
 * reader slows the disk, and a caller that goes away leaves nothing behind.
 */
import { once } from 'node:events';

import type { Metadata, ServerReadableStream, ServerUnaryCall, ServerWritableStream, StatusObject, sendUnaryData } from '@grpc/grpc-js';

import { CapstanError } from '../../proto/errors.ts';
import {
  BlobPurpose,
  type BlobServiceServer,
  type GetBlobRequest,
  type GetBlobResponse,
  type PutBlobHeader,
  type PutBlobRequest,
  type PutBlobResponse,
  type StatBlobRequest,
  type StatBlobResponse,
} from '../../proto/gen/capstan/v1/blobs.ts';
import { toStatus } from '../../proto/grpc-errors.ts';
import { isErrno } from '../../proto/thrown.ts';
import type { BlobStore } from './blob-store.ts';
import type { BlobHeader } from './file-store.ts';
import { buildId, type BlobKind } from './ids.ts';
import type { UnfinishedBuilds } from './unfinished-builds.ts';

/** The most bytes a frame may carry. */
export const MAX_FRAME_BYTES = 256 * 1024;

export interface BlobServiceDeps {
  readonly store: BlobStore;
  /** Builds that come in parts. */
  readonly unfinished: UnfinishedBuilds;
  /** Answers with whose blobs the caller sends, or throws a CapstanError (UNAUTHENTICATED, PERMISSION_DENIED). */
  readonly authorize: (metadata: Metadata, access: { readonly read: string } | { readonly write: BlobKind }) => string;
  /** Told of every failure that is not a refusal: its text must not reach the caller, but a log. */
  readonly onFault: (error: unknown) => void;
}

/** The handlers, to be added to a server under BlobServiceService. */
export function blobService({ store, unfinished, authorize, onFault }: BlobServiceDeps): BlobServiceServer {
  const statusOf = (error: unknown): Partial<StatusObject> => {
    if (!(error instanceof CapstanError)) onFault(error);
    return toStatus(error);
  };

  /** The caller went away: nobody is left to be told, but what broke besides must not be lost. */
  const unlessGone = (error: unknown): void => {
    if (!(error instanceof CapstanError) && !isErrno(error, 'ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR')) onFault(error);
  };

  async function put(call: ServerReadableStream<PutBlobRequest, PutBlobResponse>): Promise<PutBlobResponse> {
    // Before a message is read; the header says more.
    authorize(call.metadata, { write: 'body' });
    const requests = call[Symbol.asyncIterator]() as AsyncIterator<PutBlobRequest, undefined>;
    const first = await requests.next();
    if (first.done === true || first.value.part?.$case !== 'header') {
      throw new CapstanError('INVALID_ARGUMENT', 'part: the first message must hold the header', { field: 'part' });
    }
    const frames = framesOf(requests);
    const { value: header } = first.value.part;
    const owner = authorize(call.metadata, { write: asHeader(header).kind });
    if (header.offset !== undefined) return putPart(owner, header, header.offset, frames);
    const stored = await store.put(asHeader(header), frames);
    if (stored.existed) await discard(frames);
    return { ...stored, received: stored.size };
  }

  async function putPart(owner: string, header: PutBlobHeader, offset: number, frames: AsyncIterable<Buffer>): Promise<PutBlobResponse> {
    const { digest, size } = header;
    if (asHeader(header).kind !== 'build') throw new CapstanError('INVALID_ARGUMENT', 'offset is for builds', { field: 'offset' });
    const id = buildId(digest);
    if ((await store.hold(id)) === size) {
      await Promise.all([discard(frames), unfinished.discard(owner, digest)]);
      return { id, size, existed: true, received: size };
    }
    const build = { owner, digest, size };
    const received = await unfinished.append(build, offset, frames);
    if (received < size) return { id, size, existed: false, received };
    return { ...(await unfinished.finish(build, (file) => store.adopt(build, file))), received };
  }

  async function get(call: ServerWritableStream<GetBlobRequest, GetBlobResponse>): Promise<void> {
    const gone = new AbortController();
    call.once('cancelled', () => gone.abort());
    authorize(call.metadata, { read: call.request.id });
    const blob = await store.get(call.request.id);
    try {
      call.write({ part: { $case: 'size', value: blob.size } });
      for await (const piece of blob.pieces) {
        if (gone.signal.aborted) return;
        if (!call.write({ part: { $case: 'data', value: piece } })) await once(call, 'drain', { signal: gone.signal });
      }
    } finally {
      blob.close();
    }
    call.end();
  }

  async function stat({ id }: StatBlobRequest, metadata: Metadata): Promise<StatBlobResponse> {
    const owner = authorize(metadata, { read: id });
    const size = await store.hold(id);
    const [, digest] = /^build\/(.*)$/.exec(id) ?? [];
    const received = size === null && digest !== undefined ? await unfinished.received(owner, digest) : 0;
    return { exists: size !== null, size: size ?? 0, received };
  }

  return {
    put(call: ServerReadableStream<PutBlobRequest, PutBlobResponse>, reply: sendUnaryData<PutBlobResponse>): void {
      put(call).then(
        (response) => reply(null, response),
        (error: unknown) => {
          if (call.cancelled) unlessGone(error);
          else reply(statusOf(error));
        },
      );
    },
    stat(call: ServerUnaryCall<StatBlobRequest, StatBlobResponse>, reply: sendUnaryData<StatBlobResponse>): void {
      stat(call.request, call.metadata).then(
        (response) => reply(null, response),
        (error: unknown) => reply(statusOf(error)),
      );
    },
    get(call: ServerWritableStream<GetBlobRequest, GetBlobResponse>): void {
      get(call).catch((error: unknown) => {
        if (call.cancelled) unlessGone(error);
        else call.emit('error', statusOf(error));
      });
    },
  };
}

function asHeader(header: PutBlobHeader): BlobHeader {
  const digest = header.digest === '' ? undefined : header.digest;
  switch (header.purpose) {
    case BlobPurpose.BUILD:
      return { kind: 'build', size: header.size, digest };
    case BlobPurpose.BODY:
      return { kind: 'body', size: header.size, digest };
    case BlobPurpose.UNSPECIFIED:
    case BlobPurpose.UNRECOGNIZED:
    default:
      throw new CapstanError('INVALID_ARGUMENT', 'purpose must be BUILD or BODY', { field: 'purpose' });
  }
}

/** The bytes of the messages after the header. */
async function* framesOf(requests: AsyncIterator<PutBlobRequest, undefined>): AsyncGenerator<Buffer, void, undefined> {
  for (let next = await requests.next(); next.done !== true; next = await requests.next()) {
    const { part } = next.value;
    if (part?.$case !== 'data')
      throw new CapstanError('INVALID_ARGUMENT', 'part: every message after the first must hold data', { field: 'part' });
    if (part.value.length > MAX_FRAME_BYTES)
      throw new CapstanError('INVALID_ARGUMENT', `data must be at most ${MAX_FRAME_BYTES} bytes a message`, { field: 'data' });
    yield part.value;
  }
}

/** Reads an upload that is not needed to its end: a sender in the middle of it need not notice. */
async function discard(frames: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of frames);
}
