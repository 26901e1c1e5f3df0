/**
 * Signatures of Standard Webhooks: HMAC-SHA256 over `<id>.<timestamp>.<payload>`. This implementation reads the payload
 * in pieces and hashes outside JavaScript; receivers (and the tests) verify with any library of the scheme.
 */
import { createHmac, randomBytes } from 'node:crypto';

import type { WebhookBody } from './webhook-body.ts';

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;

export function newSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`;
}

/** Returns the three headers of a try, with one signature per secret; `timestamp` is in seconds. */
export async function signatureHeaders(
  secrets: readonly string[],
  id: string,
  timestamp: number,
  body: WebhookBody,
): Promise<Record<string, string>> {
  const hmacs = secrets.map((secret) => createHmac('sha256', Buffer.from(secret.slice(PREFIX.length), 'base64')));
  for (const hmac of hmacs) hmac.update(`${id}.${timestamp}.`);
  for await (const piece of body.pieces()) for (const hmac of hmacs) hmac.update(piece);
  const signature = hmacs.map((hmac) => `v1,${hmac.digest('base64')}`).join(' ');
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signature };
}
