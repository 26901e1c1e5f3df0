/** A webhook as the tool prints it. */
import { WebhookState, type WebhookInfo } from '../../proto/gen/capstan/v1/control.ts';

export interface WebhookRow {
  /** What the receiver sees as webhook-id. */
  readonly id: string;
  readonly endpointId: string;
  readonly url: string;
  readonly state: 'pending' | 'failed';
  /** Failed tries. */
  readonly tries: number;
  /** ISO 8601; null when it was given up. */
  readonly nextTry: string | null;
  /** When one that was given up is forgotten, ISO 8601. */
  readonly keptUntil: string | null;
  /** Why the last try failed. */
  readonly error: string;
}

export function webhookRow({ id, endpointId, url, state, tries, dueAtMs, error }: WebhookInfo): WebhookRow {
  const failed = state === WebhookState.FAILED;
  const at = new Date(Number(dueAtMs)).toISOString();
  return {
    id,
    endpointId,
    url,
    state: failed ? 'failed' : 'pending',
    tries,
    nextTry: failed ? null : at,
    keptUntil: failed ? at : null,
    error,
  };
}
