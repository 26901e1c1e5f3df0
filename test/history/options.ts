/** Options of the command. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

import { FAULT_KINDS, type FaultKind } from './faults/fault.ts';

export interface Options {
  readonly minutes: number;
  readonly seed: number;
  /** Requests a second. */
  readonly rate: number;
  readonly faults: readonly FaultKind[];
  /** Mean time between two faults of a storm, s. */
  readonly every: number;
  /** Folder that the histories are kept in; a temporary one, removed unless a rule is violated, when it is not given. */
  readonly out: string | undefined;
  readonly soak: boolean;
  /** Several of them run on PostgreSQL. */
  readonly schedulers: number;
  /** Folder of kept histories to check again, in place of a run. */
  readonly check: string | undefined;
}

export const USAGE = `npm run history -- [--minutes 2] [--seed <number>] [--rate 50] [--faults ${FAULT_KINDS.join(',')}|none] [--every 3] [--schedulers 1] [--out <folder>] [--soak]
       npm run history -- --check <folder>`;

/** Throws with the usage where an option is unknown or breaks its rule. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '2' },
      seed: { type: 'string' },
      rate: { type: 'string' },
      faults: { type: 'string' },
      every: { type: 'string', default: '3' },
      out: { type: 'string' },
      soak: { type: 'boolean', default: false },
      schedulers: { type: 'string', default: '1' },
      check: { type: 'string' },
    },
  });
  const { soak } = values;
  return {
    soak,
    minutes: positive('minutes', values.minutes),
    seed: values.seed === undefined ? randomInt(2 ** 31) : positive('seed', values.seed),
    rate: positive('rate', values.rate ?? (soak ? '100' : '50')),
    faults: faultsOf(values.faults ?? (soak ? 'none' : FAULT_KINDS.join())),
    every: positive('every', values.every),
    out: values.out,
    check: values.check,
    schedulers: count('schedulers', values.schedulers),
  };
}

function positive(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isFinite(number) || number <= 0) throw new Error(`--${name} must be a number above 0, not ${text}`);
  return number;
}

function count(name: string, text: string): number {
  if (/^[1-9]$/.test(text)) return Number(text);
  throw new Error(`--${name} must be a whole number from 1 to 9, not ${text}`);
}

function faultsOf(text: string): FaultKind[] {
  if (text === 'none') return [];
  return text.split(',').map((name) => {
    const kind = FAULT_KINDS.find((each) => each === name.trim());
    if (kind === undefined) throw new Error(`--faults: ${name} is none of ${FAULT_KINDS.join(', ')}`);
    return kind;
  });
}
