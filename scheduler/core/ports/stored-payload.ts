/** Payloads as a store returns them: as they were sent, or known to be damaged. */
import type { Payload } from '../../../lib/payload.ts';

/** A payload that the store cannot return as it was sent; why, for users. */
export interface Damaged {
  readonly damaged: string;
}

export type StoredPayload = Payload | Damaged;

export function isDamaged(payload: StoredPayload | null): payload is Damaged {
  return payload !== null && 'damaged' in payload;
}

/** Whether none of these is damaged. */
export function areWhole(payloads: readonly StoredPayload[]): payloads is readonly Payload[] {
  return !payloads.some(isDamaged);
}
