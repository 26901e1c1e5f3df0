/** The messages between the client and the thread that reads for searches. Requests are answered in order. */
import type { PayloadKeySet } from '../../secrets/payload-keys.ts';
import type { HistoryRange } from '../history.ts';
import type { DeviceHistoryRange } from '../device-history.ts';
import type { QueueReasonStore } from '../queue-reasons.ts';
import type { Reads } from '../../core/ports/store.ts';

export interface SearchThreadData {
  readonly file: string;
  readonly payloadKeys: PayloadKeySet | null;
}

export type SearchRequest =
  | { readonly ask: 'read'; readonly query: keyof Reads; readonly args: readonly unknown[] }
  | { readonly ask: 'history'; readonly range: HistoryRange }
  | { readonly ask: 'queue-reasons'; readonly range: Parameters<QueueReasonStore['read']>[0] }
  | { readonly ask: 'device-history'; readonly range: DeviceHistoryRange }
  /** Payloads of later requests are decrypted with these. */
  | { readonly ask: 'payload-keys'; readonly keys: PayloadKeySet }
  | { readonly ask: 'close' };
