/** The scaler's most recent decisions about an endpoint, and their reasons, for users. */
import type { EndpointRecord, ScalingDecision } from '../state/endpoints.ts';
import type { Now } from '../now.ts';

/** Decisions kept per endpoint. */
export const DECISIONS_KEPT = 50;

/** Records a decision. A repetition of the previous decision is not recorded. */
export function noteDecision(endpoint: EndpointRecord, now: Now, decision: Omit<ScalingDecision, 'at'>): void {
  const { decisions } = endpoint;
  const last = decisions.at(-1);
  const repeated = last?.kind === decision.kind && last.reason === decision.reason && last.worker === decision.worker;
  if (repeated) return;
  decisions.push({ at: now.wall, ...decision });
  if (decisions.length > DECISIONS_KEPT) decisions.shift();
}
