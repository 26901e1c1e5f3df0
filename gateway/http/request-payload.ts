/** The input of a job, from the body of the request that submits it. */
import type { FastifyRequest } from 'fastify';

import { MAX_INLINE_BYTES, type Payload } from '../../lib/payload.ts';
import type { Reservation } from '../../lib/shared-budget.ts';
import { endpointId } from './guard.ts';
import { transferBody, releaseBody } from './request-body.ts';
import type { JobServices } from './services.ts';

export interface RequestPayload {
  readonly payload: Payload;
  /** Memory of an inline payload, released by its sender; null for a payload in the blob store. */
  readonly held: Reservation | null;
}

/**
 * Moves the input out of its request, which holds no body afterwards. An input above the inline limit is first uploaded
 * to the blob store; only then is the result a promise.
 * @throws CapstanError QUOTA_EXCEEDED when the input would exceed the account's quota.
 */
export function takePayload(services: JobServices, request: FastifyRequest, input: Buffer): RequestPayload | Promise<RequestPayload> {
  if (input.length > MAX_INLINE_BYTES) return storePayload(services, request, input);
  // A small input in a large body is copied, so that it does not keep the body in memory.
  const bodyBytes = Math.max(input.length, request.rawBody?.length ?? 0);
  const copied = bodyBytes > MAX_INLINE_BYTES;
  return { payload: { inline: copied ? Buffer.from(input) : input }, held: transferBody(request, copied ? input.length : bodyBytes) };
}

async function storePayload({ cells, lookup }: JobServices, request: FastifyRequest, input: Buffer): Promise<RequestPayload> {
  const id = endpointId(request);
  const blob = await cells.ofEndpoint(id).bodies.put(input, lookup.knownEndpoint(id)?.accountId);
  releaseBody(request);
  return { payload: { blob }, held: null };
}
