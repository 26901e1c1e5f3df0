/**
 * POST /console/api/lb/<endpoint>: sends a request that a form describes to a load-balanced endpoint, with the rights of the session's
 * key. The endpoint receives nothing of the console's own request, and its response comes in an envelope that a browser does not
 * interpret (envelope.ts).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { noEndpoint, refusal } from '../directory/permission.ts';
import type { Endpoint, Key } from '../directory/directory.ts';
import { onResponseClosed } from '../http/client-disconnect.ts';
import { endpointId } from '../http/guard.ts';
import { sendFailure, toCapstanError } from '../http/problem.ts';
import { expectBody } from '../http/request-body.ts';
import { endpointParams } from '../http/schemas.ts';
import { parseWhole } from '../json/body.ts';
import { peerOfRequest } from '../http/forwarded.ts';
import { describedRequest, requestHead, targetOf, type DescribedRequest } from './described-request.ts';
import { Envelope, type EnvelopeLimits } from './envelope.ts';
import { tokenOf, type ConsoleServices } from './services.ts';

/** Size of a description, bytes. */
const MAX_BYTES = 1024 * 1024;
const LIMITS: EnvelopeLimits = { mostBytes: 4 * 1024 * 1024, mostMs: 300_000 };
/** Requests that a session may have open, and those of an account. */
const MAX_OF_A_SESSION = 4;
const MAX_OF_AN_ACCOUNT = 20;
/** Requests of this gateway. */
const MAX = 200;
const RETRY_MS = 5_000;
/** Time for what was written to be read before the connection is cut, ms. */
const CUT_MS = 60_000;
const NOTHING = Buffer.alloc(0);

/** The response is bytes to a browser, wherever it is opened. */
const NEUTRAL = {
  'content-type': 'application/octet-stream',
  'content-disposition': 'attachment; filename="response.jsonl"',
  'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
};

export function endpointRequestRoutes(api: FastifyInstance, services: ConsoleServices, limits = LIMITS): void {
  const { authenticator, loadBalancer, log, lookup, proxies } = services;
  /** Open requests by party: session, account, all. */
  const open = new Map<string, number>();

  /** @throws CapstanError for what the key of the session may not call. */
  async function admitted(request: FastifyRequest): Promise<{ readonly key: Key; readonly endpoint: Endpoint }> {
    const id = endpointId(request);
    const key = await authenticator.session(tokenOf(request, services), peerOfRequest(request.raw, proxies));
    const endpoint = await lookup.endpointOf(key, id);
    // A public endpoint takes requests of everybody; the console acts for its key nevertheless.
    const refused = refusal(key, id, endpoint, 'call');
    if (refused !== null) throw refused;
    if (endpoint === undefined) throw noEndpoint(id);
    if (endpoint.kind !== EndpointKind.LOAD_BALANCED)
      throw new CapstanError('NOT_FOUND', `endpoint ${id} is queue-based: call /v2/${id}/run`);
    return { key, endpoint };
  }

  /** Counts an open request; returns the function that ends it. @throws CapstanError RATE_LIMITED */
  function take({ hash, cell, accountId }: Key): () => void {
    const parties = [
      [`session ${hash.toString('hex')}`, MAX_OF_A_SESSION, 'a session'],
      [`account ${cell} ${accountId}`, MAX_OF_AN_ACCOUNT, 'an account'],
      ['', MAX, 'a gateway'],
    ] as const;
    const full = parties.find(([party, most]) => (open.get(party) ?? 0) >= most);
    if (full !== undefined)
      throw new CapstanError('RATE_LIMITED', `${full[2]} may have at most ${full[1]} open test requests`, { retryAfterMs: RETRY_MS });
    for (const [party] of parties) open.set(party, (open.get(party) ?? 0) + 1);
    return () => {
      for (const [party] of parties) {
        const left = (open.get(party) ?? 1) - 1;
        if (left === 0) open.delete(party);
        else open.set(party, left);
      }
    };
  }

  async function send(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const described = request.body as DescribedRequest;
    const target = targetOf(described.path);
    const { key, endpoint } = await admitted(request);
    const address = { endpointId: endpoint.id, target, pathForm: true };
    const head = requestHead(described, `/lb/${endpoint.id}${target}`, request.raw);
    const free = take(key);
    reply.hijack();
    const { raw } = reply;
    raw.writeHead(200, NEUTRAL);
    raw.flushHeaders();
    const envelope = new Envelope({
      ...limits,
      headOnly: described.method === 'HEAD',
      write: (line) => raw.write(line),
      close: () => {
        raw.end();
        const force = setTimeout(() => raw.destroy(), CUT_MS);
        raw.once('close', () => clearTimeout(force));
      },
    });
    raw.on('drain', () => envelope.onDrain());
    onResponseClosed(reply, () => {
      envelope.gone();
      free();
    });
    try {
      loadBalancer.send({ request: head, endpoint, address }, Buffer.from(described.body ?? ''), envelope);
    } catch (thrown) {
      const error = toCapstanError(thrown);
      if (error.code === 'INTERNAL') log.error({ endpoint: endpoint.id, err: error.cause ?? error }, 'a test request failed');
      envelope.fail(error);
    }
  }

  api.route({
    method: 'POST',
    url: '/lb/:endpointId',
    bodyLimit: MAX_BYTES,
    config: { rawBodyOnly: true },
    schema: { params: endpointParams, body: describedRequest },
    onRequest(request, reply, done) {
      expectBody(request, reply, peerOfRequest(request.raw, proxies), services);
      done();
    },
    preValidation(request, _reply, done) {
      request.body = parseWhole(request.rawBody ?? NOTHING);
      done();
    },
    handler(request, reply) {
      send(request, reply).catch((thrown: unknown) => sendFailure(reply, thrown));
    },
  });
}
