/**
 * Passes the body of a load-balanced request on to its exchange as it arrives. Bytes held count towards the account
 * (without a key, towards the caller's address) until the worker has them. A body that arrives too slowly is rejected,
 * because it would hold a worker.
 */
import type { IncomingMessage } from 'node:http';

import type { CapstanError } from '../../lib/errors.ts';
import type { Reservation } from '../../lib/shared-budget.ts';
import type { UploadMeter, UploadMonitor } from '../../lib/upload-monitor.ts';
import { bodyError, shortageError } from '../http/request-body.ts';
import { RETAINED_BYTES, type Exchange } from './exchange.ts';

export interface BodyFeedOptions {
  readonly maxBytes: number;
  readonly reservation: Reservation;
  readonly monitor: UploadMonitor;
  /** The body breaks a rule: the rest is not read. */
  readonly onRefused: (error: CapstanError) => void;
}

const NOTHING = Buffer.alloc(0);

export class BodyFeed {
  readonly #request: IncomingMessage;
  readonly #options: BodyFeedOptions;
  #exchange: Exchange | undefined;
  #meter: UploadMeter | undefined;
  /** An incomplete short body, and its length. */
  #parts: Buffer[] = [];
  #partBytes = 0;
  #bytes = 0;
  #ended = false;

  constructor(request: IncomingMessage, options: BodyFeedOptions) {
    this.#request = request;
    this.#options = options;
  }

  /**
   * Starts the exchange: at once for a long body, after the last byte for a short one, so that a slow caller does not
   * hold a worker.
   */
  start(exchange: Exchange): void {
    const { headers } = this.#request;
    const length = headers['content-length'];
    const hasBody = headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
    this.#exchange = exchange;
    if (!hasBody) {
      exchange.start(NOTHING, true);
      return;
    }
    const whole = length !== undefined && Number(length) <= RETAINED_BYTES;
    if (!whole) exchange.start(NOTHING, false);
    this.#meter = this.#options.monitor.watch(() => this.#refuse(bodyError('too-slow', 0)));
    this.#request.on('data', (chunk: Buffer) => this.#take(exchange, chunk, whole));
    this.#request.on('end', () => {
      this.#meter?.end();
      if (this.#ended) return;
      if (whole) exchange.start(this.#parts.length === 1 ? (this.#parts[0] ?? NOTHING) : Buffer.concat(this.#parts), true);
      else exchange.finish();
      this.#parts = [];
      this.#partBytes = 0;
    });
  }

  /** The worker has taken some of it: more may be sent. */
  readOn(): void {
    if (this.#ended) return;
    this.#options.reservation.resize(this.#held());
    this.#meter?.resume();
    this.#request.resume();
  }

  /** The request is over. */
  end(): void {
    this.#ended = true;
    this.#meter?.end();
    this.#options.reservation.release();
  }

  #held(): number {
    return this.#partBytes + (this.#exchange?.heldBytes ?? 0);
  }

  #take(exchange: Exchange, chunk: Buffer, whole: boolean): void {
    if (this.#ended) return;
    const { maxBytes, reservation } = this.#options;
    this.#meter?.count(chunk.length);
    this.#bytes += chunk.length;
    if (this.#bytes > maxBytes) {
      this.#refuse(bodyError('too-large', maxBytes));
      return;
    }
    const shortage = reservation.resize(this.#held() + chunk.length);
    if (shortage !== null) {
      this.#refuse(shortageError(shortage));
    } else if (whole) {
      this.#parts.push(chunk);
      this.#partBytes += chunk.length;
    } else if (!exchange.push(chunk)) {
      this.#meter?.pause();
      this.#request.pause();
    }
  }

  #refuse(error: CapstanError): void {
    if (this.#ended) return;
    this.end();
    this.#parts = [];
    this.#request.removeAllListeners('data');
    this.#exchange?.abandon(error.message);
    this.#options.onRefused(error);
  }
}
