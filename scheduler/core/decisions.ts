/** What the scaler decided about an endpoint, and why: the last decisions, for people. */
import type { EndpointImage, Now } from './image.ts';

/** Decisions kept per endpoint. */
export const decisionsKept = 50;

/** What was decided. */
export type DecisionKind =
  /** A worker was asked for. */
  | 'ASK'
  /** A worker was asked to go. */
  | 'DRAIN'
  /** A worker was wanted, and no node could take it. */
  | 'NO_PLACE'
  /** Starts fail in a row: one worker goes on trying. */
  | 'CRASH_LOOP'
  /** A worker started after such failures. */
  | 'RECOVERED';

export interface ScalingDecision {
  /** Wall time, ms. */
  readonly at: number;
  readonly kind: DecisionKind;
  /** Empty where it is not about one worker, or one node. */
  readonly worker: string;
  readonly node: string;
  readonly reason: string;
}

/** Notes a decision; the same one again, with nothing between, is not noted twice. */
export function noteDecision(endpoint: EndpointImage, now: Now, decision: Omit<ScalingDecision, 'at'>): void {
  const { decisions } = endpoint;
  const last = decisions.at(-1);
  const repeated = last?.kind === decision.kind && last.reason === decision.reason && last.worker === decision.worker;
  if (repeated) return;
  decisions.push({ at: now.wall, ...decision });
  if (decisions.length > decisionsKept) decisions.shift();
}
