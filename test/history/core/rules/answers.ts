/** Every answer has a reason: requests are refused and lost only during faults, no part ends by itself, and every fault heals. */
import { isDisturbed, type Call, type Facts } from '../facts.ts';
import type { Violation } from '../violation.ts';

/** A request may have waited this long in a gateway before it failed, ms. */
const HELD_MS = 20_000;

export function answersHaveReasons(facts: Facts): Violation[] {
  const found: Violation[] = [];
  for (const call of facts.calls.values()) {
    const problem = refused(call) ?? failed(facts, call);
    if (problem === undefined) continue;
    const { record } = call;
    found.push({
      rule: 'every answer has a reason',
      detail: `${record.operation} (call ${record.call}): ${problem}`,
      jobs: record.job === undefined ? [] : [record.job],
      inputs: record.input === undefined ? [] : [record.input],
      calls: [record.call],
    });
  }
  return found;
}

export function partsStayUp(facts: Facts): Violation[] {
  return facts.crashes.map(({ part, how, at }) => ({
    rule: 'parts stay up',
    detail: `the ${part} ended by itself at ${Math.round(at)}: ${how}`,
    jobs: [],
  }));
}

/** A service that does not become whole again by itself keeps its fault for ever. */
export function faultsHeal({ disruptions, endedAt }: Facts): Violation[] {
  if (endedAt === undefined) return [];
  return disruptions
    .filter(({ to }) => to === Infinity)
    .map(({ number, fault, target }) => ({
      rule: 'every fault heals',
      detail: `fault ${number} (${fault} of ${target}) was not over at the end of the run`,
      jobs: [],
    }));
}

/** 404 is judged with loss, 409 with final states and keys. */
function refused({ record, answer }: Call): string | undefined {
  if (answer === undefined || answer.status === 200 || answer.status === 404) return undefined;
  const conflictExpected = record.conflicting === true || record.operation === 'cancel' || record.operation === 'retry';
  if (answer.status === 409 && conflictExpected) return undefined;
  return `answers ${answer.status}: ${answer.detail ?? ''}`;
}

/** A wait that the client's own limit ended says that the machine is slow, not that the service failed. */
function failed(facts: Facts, { record, failure, timedOut, returnedAt }: Call): string | undefined {
  if (failure === undefined || timedOut || isDisturbed(facts, record.at - HELD_MS, returnedAt)) return undefined;
  return `fails without a fault: ${failure}`;
}
