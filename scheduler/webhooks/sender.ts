/**
 * Tries to deliver webhooks: reads the delivery, signs it, posts it, and reports the result. The core decides when and
 * how often (scheduler/core/webhooks/webhooks.ts). Every try has its own connection, so that each is resolved and
 * checked anew, and none fails because the receiver closes an idle connection.
 */
import { Readable } from 'node:stream';

import { CapstanError } from '../../lib/errors.ts';
import type { Span } from '../../lib/telemetry/tracing.ts';
import { traceHeaders } from '../../lib/trace-context.ts';
import type { ReadableBlob } from '../blobs/file-store.ts';
import type { DeliveryRow } from '../core/ports/store.ts';
import type { AddressGuard } from './guard.ts';
import { failed, post, type PostResult } from './post.ts';
import type { Resolve } from './resolver.ts';
import { signatureHeaders } from './signature.ts';
import { damageOfDelivery, isWhole, webhookBodyOf, type WebhookBody } from './webhook-body.ts';

export type TryResult = PostResult | { readonly result: 'gone' };

export interface SenderOptions {
  readonly delivery: (id: string) => Promise<DeliveryRow | null>;
  readonly openBlob: (id: string) => Promise<ReadableBlob>;
  /** Returns the secrets that sign an account's webhooks. */
  readonly secrets: (account: string) => Promise<readonly string[]>;
  readonly guardOf: (account: string) => AddressGuard;
  /** Returns the decrypted URL of a delivery. */
  readonly urlOf: (delivery: DeliveryRow) => string;
  readonly resolve: Resolve;
  /** Wall clock, ms. */
  readonly now: () => number;
  /** Starts the span of a try. */
  readonly span: (delivery: DeliveryRow) => Span;
  /** Connect timeout, ms. */
  readonly connectMs: number;
  /** Timeout of a try, ms; plus a second for each MiB of the payload. */
  readonly totalMs: number;
  readonly userAgent: string;
  readonly tried: (id: string, result: TryResult) => void;
  /** Called on an internal error. */
  readonly onFault: (error: unknown, id: string) => void;
}

const SMALL_BODY = 65_536;

export class WebhookSender {
  readonly #options: SenderOptions;
  readonly #underWay = new Map<AbortController, Promise<void>>();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Starts a try. Its result is reported later, unless the try is cancelled. */
  deliver(id: string): void {
    const stop = new AbortController();
    const done = this.#try(id, stop).then((result) => {
      this.#underWay.delete(stop);
      if (stop.signal.reason !== cancelled) this.#options.tried(id, result);
    });
    this.#underWay.set(stop, done);
  }

  /** Cancels the tries in progress; no more results are reported. */
  async cancel(): Promise<void> {
    const ending = [...this.#underWay.values()];
    for (const stop of this.#underWay.keys()) stop.abort(cancelled);
    await Promise.all(ending);
  }

  async #try(id: string, stop: AbortController): Promise<TryResult> {
    try {
      const delivery = await this.#options.delivery(id);
      if (delivery === null) return { result: 'gone' };
      if (!isWhole(delivery)) return failed(`PAYLOAD_DAMAGED: ${damageOfDelivery(delivery) ?? ''}`);
      const url = this.#options.urlOf(delivery);
      const body = webhookBodyOf(delivery, url, this.#options.openBlob);
      const timestamp = Math.floor(this.#options.now() / 1_000);
      const headers = await signatureHeaders(await this.#options.secrets(delivery.account), id, timestamp, body);
      const span = this.#options.span(delivery);
      if (span.trace !== '') Object.assign(headers, traceHeaders(span.trace));
      const result = await post(
        { url, guard: this.#options.guardOf(delivery.account) },
        { headers, size: body.size, content: () => contentOf(body) },
        { ...this.#options, stop },
      );
      if (result.result === 'failed') span.fail(result.error);
      span.end();
      return result;
    } catch (error) {
      if (error instanceof CapstanError && error.code === 'PAYLOAD_DAMAGED') return failed(`${error.code}: ${error.message}`);
      if (stop.signal.reason !== cancelled) this.#options.onFault(error, id);
      return failed('internal error: see the log of the scheduler');
    }
  }
}

const cancelled = new Error('cancelled');

/** Sends a small body in one write with its headers. */
async function contentOf(body: WebhookBody): Promise<Buffer | Readable> {
  if (body.size > SMALL_BODY) return Readable.from(body.pieces(), { objectMode: false });
  const pieces: Uint8Array[] = [];
  for await (const piece of body.pieces()) pieces.push(piece);
  return Buffer.concat(pieces);
}
