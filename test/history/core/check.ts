/** Checks a history against every rule. Knows nothing of the service but what clients and handlers recorded. */
import { gatherFacts, type Facts } from './facts.ts';
import type { HistoryRecord } from './record.ts';
import { answersHaveReasons, faultsHeal, partsStayUp } from './rules/answers.ts';
import { attemptsBounded } from './rules/attempts.ts';
import { endsHaveCauses } from './rules/causes.ts';
import { oneJobPerKey } from './rules/keys.ts';
import { nothingLost } from './rules/loss.ts';
import { firstInFirstOut } from './rules/order.ts';
import { ownOutputOnce } from './rules/outputs.ts';
import { chunksInOrder } from './rules/streams.ts';
import { cancelledStays, terminalIsFinal } from './rules/terminal.ts';
import { webhooksDelivered } from './rules/webhooks.ts';
import type { Violation } from './violation.ts';

export const rules: readonly ((facts: Facts) => Violation[])[] = [
  nothingLost,
  ownOutputOnce,
  terminalIsFinal,
  cancelledStays,
  oneJobPerKey,
  chunksInOrder,
  webhooksDelivered,
  attemptsBounded,
  firstInFirstOut,
  endsHaveCauses,
  answersHaveReasons,
  partsStayUp,
  faultsHeal,
];

/** Every violation, by rule. */
export function check(records: readonly HistoryRecord[]): Violation[] {
  const facts = gatherFacts(records);
  return rules.flatMap((rule) => rule(facts));
}
