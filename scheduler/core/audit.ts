/**
 * The audit log: who changed what, when and from where. An entry is a control row of the kind `audit`, written with the operations of its
 * change; the store moves it into a table of its own, where nothing changes it (store.ts).
 */
import type { Now } from './now.ts';
import { storedJson } from './stored-json.ts';

/** Facts of a setting or an object. They never contain a secret's or a variable's value. */
export type AuditFacts = Readonly<Record<string, unknown>>;

export interface AuditEntry {
  /** Whose log has it. */
  readonly account: string;
  /** Id of the key that made the change; empty for the service itself. */
  readonly key: string;
  readonly keyName: string;
  /** The caller's, as the gateway saw it; empty if it is not known. */
  readonly address: string;
  /** The call, such as `setSecret`. */
  readonly action: string;
  /** What it changed, such as `default/chat`. */
  readonly object: string;
  readonly before: AuditFacts | null;
  readonly after: AuditFacts | null;
}

/** Characters of both states of an entry as JSON text, and of one text in it. */
export const MAX_FACTS = 8_192;
const MAX_TEXT = 500;
/** Digits of a time in ms: keys are in the order of time until the year 2286. */
const TIME_DIGITS = 13;
/** Digits of the number of an entry among those of the same millisecond. */
const NUMBER_DIGITS = 4;

/** When the last entry was written, ms, and its number among those of that millisecond. */
export interface LastEntry {
  at: number;
  number: number;
}

/** An entry as the store takes it. */
export interface AuditPut {
  readonly key: string;
  readonly value: string;
}

/**
 * Returns the row of an entry: its key, in order of time within the account and of writing within a millisecond, and its value.
 * `unique`: a name that no other scheduler of the database chooses.
 */
export function auditRow(last: LastEntry, unique: string, { wall }: Now, entry: AuditEntry): AuditPut {
  const at = Math.trunc(wall);
  last.number = at === last.at ? last.number + 1 : 0;
  last.at = at;
  const { before, after } = bounded(entry);
  const value = { at, ...entry, before, after };
  return {
    key: `${entry.account}/${padded(at, TIME_DIGITS)}${padded(last.number, NUMBER_DIGITS)}${unique}`,
    value: storedJson(value),
  };
}

/** Returns the id of an account's log before which all entries before this time are, wall clock ms. */
export function auditIdAt(account: string, wall: number): string {
  return `${account}/${padded(Math.min(Math.max(0, Math.ceil(wall)), 10 ** TIME_DIGITS - 1), TIME_DIGITS)}`;
}

function padded(number: number, digits: number): string {
  return String(number).padStart(digits, '0');
}

function bounded({ before, after }: AuditEntry): Pick<AuditEntry, 'before' | 'after'> {
  const short = (facts: AuditFacts | null): AuditFacts | null =>
    facts === null ? null : (JSON.parse(JSON.stringify(facts, (_name, each: unknown) => shortened(each))) as AuditFacts);
  const cut = { before: short(before), after: short(after) };
  return JSON.stringify(cut).length <= MAX_FACTS ? cut : { before: null, after: { truncated: true } };
}

function shortened(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'string' && value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value;
}
