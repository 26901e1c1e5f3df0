/** What the scaler decided about an endpoint, and why: the last decisions, for people. */
import type { EndpointRecord, ScalingDecision } from '../state/endpoints.ts';
import type { Now } from '../now.ts';

/** Decisions kept per endpoint. */
export const DECISIONS_KEPT = 50;

/** Notes a decision; the same one again, with nothing between, is not noted twice. */
export function noteDecision(endpoint: EndpointRecord, now: Now, decision: Omit<ScalingDecision, 'at'>): void {
  const { decisions } = endpoint;
  const last = decisions.at(-1);
  const repeated = last?.kind === decision.kind && last.reason === decision.reason && last.worker === decision.worker;
  if (repeated) return;
  decisions.push({ at: now.wall, ...decision });
  if (decisions.length > DECISIONS_KEPT) decisions.shift();
}
