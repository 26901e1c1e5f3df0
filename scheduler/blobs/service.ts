/**
 * BlobService over the file store. Large bodies use their own connections, so that they delay nothing else. Flow
 * control applies in both directions: a slow disk slows the sender, a slow reader slows the disk. A disconnected caller
 * leaves nothing behind.
 */
import { once } from 'node:events';

import type { Metadata, ServerReadableStream, ServerUnaryCall, ServerWritableStream, StatusObject, sendUnaryData } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
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
import { toStatus } from '../../lib/grpc-errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import type { Damaged } from '../core/ports/stored-payload.ts';
import type { BlobStore } from './blob-store.ts';
import type { BlobHeader } from './file-store.ts';
import { BuildCheck } from './build-check.ts';
import { blobNotFound, buildId, checkBlobId } from './ids.ts';
import { senderOf, type UploadRoom } from './upload-room.ts';
import type { UnfinishedBuilds } from './unfinished-builds.ts';

/** Limit for a frame, bytes. */
export const MAX_FRAME_BYTES = 256 * 1024;

/**
 * Caller that sends and fetches blobs: a gateway or a node for bodies, the holder of an account's key for builds, which
 * nodes read.
 */
export type BlobCaller =
  | { readonly kind: 'gateway' }
  | { readonly kind: 'account'; readonly account: string }
  | { readonly kind: 'node'; readonly node: string };

/** Tracks which accounts own which builds. */
export interface BuildOwners {
  owns(account: string, digest: string): boolean;
  /** Whether a worker of the build is placed on the node. */
  runs(node: string, digest: string): boolean;
  /** Records that the account sent the build, or requested one that it owns; durable when it resolves. */
  record(account: string, digest: string, size: number): Promise<void>;
}

export interface BlobServiceDeps {
  readonly store: BlobStore;
  /** Builds sent in parts. */
  readonly unfinished: UnfinishedBuilds;
  /** Authenticates the caller. @throws CapstanError UNAUTHENTICATED, PERMISSION_DENIED. */
  readonly authorize: (metadata: Metadata) => BlobCaller;
  readonly owners: BuildOwners;
  /** Whether the node holds the lease of a job with this input. */
  readonly isLeased: (node: string, body: string) => boolean;
  /** @throws CapstanError DISK_FULL if there is no room for this many more bytes of this caller. */
  readonly mustFit: (caller: BlobCaller, bytes: number) => void;
  readonly uploads: Pick<UploadRoom, 'take'>;
  /**
   * Returns why an account may not store another body of this size besides `underWay` bytes in progress; null if it
   * may.
   */
  readonly bodyRefusal: (account: string, size: number, underWay: number) => CapstanError | null;
  /** Called when the input of a job that is leased to the node is damaged. */
  readonly onDamaged: (node: string, body: string, damage: Damaged) => void;
  /** Called with every unexpected failure. Its text goes to a log and must not reach the caller. */
  readonly onFault: (error: unknown) => void;
}

/** Creates the handlers to register under BlobServiceService. */
export function blobService(deps: BlobServiceDeps): BlobServiceServer {
  const { store, unfinished, authorize, owners, isLeased, mustFit, uploads, bodyRefusal, onDamaged, onFault } = deps;
  const statusOf = (error: unknown): Partial<StatusObject> => {
    if (!(error instanceof CapstanError)) onFault(error);
    return toStatus(error);
  };

  const builds = new BuildCheck(store, onFault);

  /** Bytes by account. */
  const bodiesUnderWay = new Map<string, number>();

  /** A disconnected caller needs no report, but other errors must not be lost. */
  const unlessGone = (error: unknown): void => {
    if (!(error instanceof CapstanError) && !isErrno(error, 'ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR')) onFault(error);
  };

  async function put(call: ServerReadableStream<PutBlobRequest, PutBlobResponse>): Promise<PutBlobResponse> {
    const caller = authorize(call.metadata);
    const requests = call[Symbol.asyncIterator]() as AsyncIterator<PutBlobRequest, undefined>;
    const first = await requests.next();
    if (first.done === true || first.value.part?.$case !== 'header') {
      throw new CapstanError('INVALID_ARGUMENT', 'part: the first message must contain the header', { field: 'part' });
    }
    const frames = framesOf(requests);
    const { value: sent } = first.value.part;
    const header = asHeader(sent);
    mustFit(caller, header.size - (sent.offset ?? 0));
    if (header.kind === 'build') return putBuild(() => accountOf(authorize(call.metadata)), header, sent.offset, frames);
    if (sent.offset !== undefined) throw new CapstanError('INVALID_ARGUMENT', 'offset is allowed for builds only', { field: 'offset' });
    if (caller.kind === 'account') throw new CapstanError('PERMISSION_DENIED', 'only gateways and nodes may upload bodies');
    return putBody(sent.accountId, header, frames);
  }

  /** Bodies in transfer count as stored, so that concurrent uploads cannot exceed the quota. */
  async function putBody(account: string | undefined, header: BlobHeader, frames: AsyncIterable<Buffer>): Promise<PutBlobResponse> {
    if (account === undefined) {
      const stored = await store.put(header, frames);
      return { ...stored, received: stored.size };
    }
    const underWay = (bodiesUnderWay.get(account) ?? 0) + header.size;
    const refusal = bodyRefusal(account, header.size, underWay);
    if (refusal !== null) throw refusal;
    bodiesUnderWay.set(account, underWay);
    try {
      const stored = await store.put(header, frames);
      return { ...stored, received: stored.size };
    } finally {
      const left = (bodiesUnderWay.get(account) ?? 0) - header.size;
      if (left === 0) bodiesUnderWay.delete(account);
      else bodiesUnderWay.set(account, left);
    }
  }

  /**
   * Only an account that owns the build learns that it exists. Any other account sends all bytes, so that knowledge of
   * a digest alone is worthless. `authorized` returns the account while the key is valid: a build whose key was revoked
   * during the upload is not recorded.
   */
  async function putBuild(
    authorized: () => string,
    header: BlobHeader,
    offset: number | undefined,
    frames: AsyncIterable<Buffer>,
  ): Promise<PutBlobResponse> {
    const account = authorized();
    const { size, digest = '' } = header;
    const build = { owner: senderOf(account), digest, size };
    if (digest !== '' && owners.owns(account, digest) && (await builds.hold(digest)) === size) {
      await Promise.all([discard(frames), unfinished.discard(build.owner, digest), owners.record(account, digest, size)]);
      return { id: buildId(digest), size, existed: true, received: size };
    }
    // A damaged build that is replaced has its room.
    const release = owners.owns(account, digest) ? () => undefined : uploads.take(account, digest, size);
    try {
      if (offset === undefined) {
        const stored = await store.put({ ...header, unproven: true }, frames);
        await owners.record(authorized(), digest, size);
        return { ...stored, existed: false, received: size };
      }
      const received = await unfinished.append(build, offset, frames);
      if (received < size) return { id: buildId(digest), size, existed: false, received };
      const stored = await unfinished.finish(build, (file) => store.adopt(build, file));
      await owners.record(authorized(), digest, size);
      return { ...stored, existed: false, received };
    } finally {
      release();
    }
  }

  async function get(call: ServerWritableStream<GetBlobRequest, GetBlobResponse>): Promise<void> {
    const gone = new AbortController();
    call.once('cancelled', () => gone.abort());
    const caller = authorize(call.metadata);
    const { id } = call.request;
    mayGet(caller, id);
    const digest = digestOf(id);
    const opening = digest === null ? store.get(id) : builds.get(digest);
    const blob = await opening.catch((error: unknown) => {
      if (error instanceof CapstanError && error.code === 'PAYLOAD_DAMAGED') {
        // The operator reads of it here, whoever wanted the body.
        onFault(error);
        if (caller.kind === 'node') onDamaged(caller.node, id, { damaged: error.message });
      }
      throw error;
    });
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
    const caller = authorize(metadata);
    const digest = digestOf(id);
    if (caller.kind === 'node') mayGet(caller, id);
    if (digest === null || caller.kind === 'node') {
      const size = caller.kind === 'account' ? null : await store.hold(id);
      return { exists: size !== null, size: size ?? 0, received: 0 };
    }
    const account = accountOf(caller);
    const size = owners.owns(account, digest) ? await builds.hold(digest) : null;
    if (size === null) return { exists: false, size: 0, received: await unfinished.received(senderOf(account), digest) };
    await owners.record(account, digest, size);
    return { exists: true, size, received: 0 };
  }

  /**
   * A node reads the builds of its workers and the inputs of jobs leased to it, an account its builds, a gateway all
   * bodies.
   */
  function mayGet(caller: BlobCaller, id: string): void {
    const digest = digestOf(id);
    if (caller.kind === 'node') {
      if (digest === null ? isLeased(caller.node, id) : owners.runs(caller.node, digest)) return;
      throw new CapstanError('PERMISSION_DENIED', 'this node has no access to the blob');
    }
    if (digest === null ? caller.kind === 'gateway' : owners.owns(accountOf(caller), digest)) return;
    throw blobNotFound(id);
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

/**
 * Returns the account whose builds a caller puts and reads.
 * @throws CapstanError PERMISSION_DENIED for a node or a gateway.
 */
function accountOf(caller: BlobCaller): string {
  if (caller.kind === 'account') return caller.account;
  throw new CapstanError('PERMISSION_DENIED', `${caller.kind}s may neither upload nor read builds`);
}

/**
 * Returns the digest in a build's id; null for a body's id. @throws CapstanError INVALID_ARGUMENT for any other text.
 */
function digestOf(id: string): string | null {
  const [kind = '', name = ''] = checkBlobId(id).split('/');
  return kind === 'build' ? name : null;
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

/** Yields the bytes of the messages after the header. */
async function* framesOf(requests: AsyncIterator<PutBlobRequest, undefined>): AsyncGenerator<Buffer, void, undefined> {
  for (let next = await requests.next(); next.done !== true; next = await requests.next()) {
    const { part } = next.value;
    if (part?.$case !== 'data')
      throw new CapstanError('INVALID_ARGUMENT', 'part: every message after the first must contain data', { field: 'part' });
    if (part.value.length > MAX_FRAME_BYTES)
      throw new CapstanError('INVALID_ARGUMENT', `data must be at most ${MAX_FRAME_BYTES} bytes per message`, { field: 'data' });
    yield part.value;
  }
}

/** Reads an unneeded upload to its end, so that its sender gets no error. */
async function discard(frames: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of frames);
}
