/** /builds/<digest>: artifacts for deployments, over HTTP (docs/api-control-plane.md, Builds). */
import { Readable } from 'node:stream';

import type { Metadata } from '@grpc/grpc-js';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError } from '../../../lib/errors.ts';
import { keyText } from '../../auth/authenticate.ts';
import { ownsAccount } from '../../directory/permission.ts';
import type { CellLink } from '../../cells/cell-link.ts';
import { callMetadata } from '../../grpc/connection.ts';
import { BuildUploads } from '../../blobs/builds.ts';
import { peerOfRequest } from '../forwarded.ts';
import { onResponseClosed } from '../client-disconnect.ts';
import { JSON_TYPE, sendFailure, toCapstanError } from '../problem.ts';
import { bodyError, partiesOf, shortageError } from '../request-body.ts';
import type { Services } from '../services.ts';
import { answers } from './describe.ts';

/** The most bytes of a build. */
const MAX_BUILD_BYTES = 500_000_000;

/** Memory of an upload that is being forwarded to the store, bytes. */
const UPLOAD_BYTES = 1024 * 1024;

const params = z.object({
  digest: z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in 64 lower-case hex digits'),
});

const there = z.object({ digest: z.string(), size: z.int() }).meta({ description: 'The build exists.' });
const bytes = z.any().meta({ type: 'string', format: 'binary', description: 'The artifact, application/gzip.' });
const put200 = there.extend({ existed: z.literal(true) }).meta({ description: 'The build existed already.' });
const put201 = there.extend({ existed: z.literal(false) }).meta({ description: 'The build is new.' });
/** Headers of a part, for the OpenAPI document; they are read by hand before the body. */
const partHeaders = z.object({
  'upload-length': z.string().meta({ type: 'integer', minimum: 1, description: 'Size of the whole build, bytes.' }),
  'upload-offset': z.string().meta({ type: 'integer', minimum: 0, description: 'Offset of the body within the build, bytes.' }),
});
const received = there.extend({ received: z.int().meta({ description: 'Bytes received so far.' }), existed: z.boolean().optional() });
const patch200 = received.meta({ description: 'The part is stored; with `existed` the build existed already.' });
const patch201 = received.meta({ description: 'The last part is stored; the build is complete and new.' });

export function buildRoutes(app: FastifyInstance, services: Services): void {
  const { authenticator, cells, config, lookup, memory, uploads } = services;

  /** The cell of the caller's account. */
  const links = new WeakMap<FastifyRequest, CellLink>();

  /** Runs before the body is read. The caller's own key is forwarded to the store, which checks it again. */
  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const key = await authenticator.authenticate(request.headers.authorization, peerOfRequest(request.raw, services.proxies));
    if (!ownsAccount(key))
      throw new CapstanError('PERMISSION_DENIED', 'this key is not permitted to upload builds; uploads require the scope ALL or OPERATOR');
    // The account may be on its way to another cell, whose owner is asked before the body is read.
    const { watch, name } = cells.ofKey(key);
    const moved = watch.current ? undefined : await lookup.keyElsewhere(key.hash.toString('hex'), name, key.accountId);
    links.set(request, cells.ofKey(moved ?? key));
    if (request.method === 'GET' || request.method === 'HEAD') return;
    const { 'content-length': length, 'content-encoding': encoding } = request.headers;
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
      throw new CapstanError('UNSUPPORTED_MEDIA_TYPE', 'Content-Encoding: must be absent', { field: 'Content-Encoding' });
    if (request.method === 'PATCH') partOf(request);
    else {
      if (length === undefined)
        throw new CapstanError('INVALID_ARGUMENT', 'Content-Length: is required: the size of the build', { field: 'Content-Length' });
      if (Number(length) > MAX_BUILD_BYTES) throw tooLarge('body', length);
      if (Number(length) === 0) throw new CapstanError('INVALID_ARGUMENT', 'body: must contain the bytes of the build', { field: 'body' });
    }
    const held = memory.open(...partiesOf(key.accountId, request.raw, config));
    const shortage = held.resize(Math.min(UPLOAD_BYTES, memory.largest));
    if (shortage !== null) throw shortageError(shortage);
    onResponseClosed(reply, () => held.release());
  }

  /** Yields the body as it arrives. @throws CapstanError REQUEST_TIMEOUT when it arrives too slowly. */
  async function* bodyOf({ raw }: FastifyRequest): AsyncGenerator<Buffer, void> {
    const slow = Promise.withResolvers<never>();
    // The race below meets it, if it is still on.
    slow.promise.catch(() => undefined);
    const meter = uploads.watch(() => slow.reject(bodyError('too-slow', 0)));
    // Iterated by hand: leaving a loop would destroy the request, and with it the connection of the response.
    const pieces = raw[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    try {
      for (;;) {
        const next = pieces.next();
        next.catch(() => undefined);
        const piece = await Promise.race([next, slow.promise]);
        if (piece.done === true) return;
        meter.count(piece.value.length);
        meter.pause();
        yield piece.value;
        meter.resume();
      }
    } finally {
      meter.end();
    }
  }

  /** The store of the caller's cell, with the caller's own key. */
  function storeOf(request: FastifyRequest): { readonly builds: BuildUploads; readonly metadata: Metadata } {
    const { name, blobs } = links.get(request) ?? cells.first;
    const metadata = callMetadata(keyText(request.headers.authorization), true, name);
    return { builds: new BuildUploads(blobs, config.readTimeoutMs), metadata };
  }

  async function stat(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { digest } = request.params as z.output<typeof params>;
    const { builds, metadata } = storeOf(request);
    const { exists, size, received } = await builds.stat(digest, metadata);
    if (!exists) {
      reply.header('upload-offset', String(received));
      throw new CapstanError('NOT_FOUND', `build ${digest} is not in the artifact store`);
    }
    reply.header('content-type', JSON_TYPE).send(JSON.stringify({ digest, size }));
  }

  async function content(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { digest } = request.params as z.output<typeof params>;
    const { builds, metadata } = storeOf(request);
    const { size, frames } = await builds.open(digest, metadata);
    reply
      .header('content-type', 'application/gzip')
      .header('content-length', size)
      .send(Readable.from(frames, { highWaterMark: 2 }));
  }

  async function put(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { digest } = request.params as z.output<typeof params>;
    const size = Number(request.headers['content-length']);
    const { builds, metadata } = storeOf(request);
    const { existed } = await builds.put({ digest, size, offset: null }, bodyOf(request), metadata);
    reply
      .code(existed ? 200 : 201)
      .header('content-type', JSON_TYPE)
      .send(JSON.stringify({ digest, size, existed }));
  }

  async function patch(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { digest } = request.params as z.output<typeof params>;
    const { offset, size } = partOf(request);
    const { builds, metadata } = storeOf(request);
    const { existed, received } = await builds.put({ digest, size, offset }, bodyOf(request), metadata);
    const whole = received === size;
    reply
      .code(whole && !existed ? 201 : 200)
      .header('content-type', JSON_TYPE)
      .header('upload-offset', String(received))
      .send(JSON.stringify({ digest, size, received, ...(whole ? { existed } : {}) }));
  }

  const onRequest = (request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
    admit(request, reply).then(done, (thrown: unknown) => fail(reply, thrown));
  };

  // The bytes are forwarded as they arrive: a parser would hold 500 MB.
  void app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null));
    scope.route({
      method: ['GET', 'HEAD'],
      url: '/builds/:digest',
      onRequest,
      schema: {
        summary: 'Check whether a build exists',
        tags: ['Control'],
        security: [{ key: [] }],
        params,
        response: answers({ 200: there }, 400, 401, 404, 500, 503),
      },
      handler(request, reply) {
        stat(request, reply).catch((thrown: unknown) => fail(reply, thrown));
      },
    });
    scope.route({
      method: 'GET',
      url: '/builds/:digest/content',
      onRequest,
      schema: {
        summary: 'Download a build',
        description: 'Returns the artifact (.tar.gz) of a build of the account.',
        tags: ['Control'],
        security: [{ key: [] }],
        params,
        response: answers({ 200: bytes }, 400, 401, 404, 500, 503),
      },
      handler(request, reply) {
        content(request, reply).catch((thrown: unknown) => fail(reply, thrown));
      },
    });
    scope.route({
      method: 'PUT',
      url: '/builds/:digest',
      bodyLimit: MAX_BUILD_BYTES,
      onRequest,
      schema: {
        summary: 'Upload a build',
        description:
          'Stores an artifact (.tar.gz) of at most 500,000,000 bytes under its SHA-256, which is verified. Uploading it again changes nothing.',
        tags: ['Control'],
        security: [{ key: [] }],
        params,
        response: answers({ 200: put200, 201: put201 }, 400, 401, 409, 413, 415, 500, 503),
      },
      handler(request, reply) {
        put(request, reply).catch((thrown: unknown) => fail(reply, thrown));
      },
    });
    scope.route({
      method: 'PATCH',
      url: '/builds/:digest',
      bodyLimit: MAX_BUILD_BYTES,
      onRequest,
      schema: {
        summary: 'Upload a part of a build',
        description:
          'Upload-Length is the size of the whole build, Upload-Offset the position of the body in it, which must equal the number of bytes received so far (see HEAD). Bytes received on a broken connection are kept for an hour.',
        tags: ['Control'],
        security: [{ key: [] }],
        params,
        headers: partHeaders,
        response: answers({ 200: patch200, 201: patch201 }, 400, 401, 409, 413, 415, 500, 503),
      },
      handler(request, reply) {
        patch(request, reply).catch((thrown: unknown) => fail(reply, thrown));
      },
    });
    done();
  });
}

/** Sends the error with its code in a header: statuses of an upload have several, of which some may be tried again. */
function fail(reply: FastifyReply, thrown: unknown): void {
  reply.header('capstan-error', toCapstanError(thrown).code);
  sendFailure(reply, thrown);
}

/** Returns the position of a part in its build. @throws CapstanError naming the header and the rule. */
function partOf({ headers }: FastifyRequest): { readonly offset: number; readonly size: number } {
  const whole = (name: 'Upload-Offset' | 'Upload-Length'): number => {
    const given = headers[name.toLowerCase()];
    if (typeof given === 'string' && /^\d{1,15}$/.test(given)) return Number(given);
    throw new CapstanError('INVALID_ARGUMENT', `${name}: must be a whole number of bytes`, { field: name });
  };
  const offset = whole('Upload-Offset');
  const size = whole('Upload-Length');
  if (size > MAX_BUILD_BYTES) throw tooLarge('Upload-Length', String(size));
  if (size === 0) throw new CapstanError('INVALID_ARGUMENT', 'Upload-Length: must be above 0', { field: 'Upload-Length' });
  if (offset + Number(headers['content-length'] ?? 0) > size)
    throw new CapstanError('INVALID_ARGUMENT', `Upload-Offset: offset and body exceed Upload-Length (${size})`, {
      field: 'Upload-Offset',
    });
  return { offset, size };
}

function tooLarge(field: string, given: string): CapstanError {
  return new CapstanError('PAYLOAD_TOO_LARGE', `${field}: a build may have at most ${MAX_BUILD_BYTES} bytes, not ${given}`, { field });
}
