/**
 * The audit log: who changed what, when and from where. An entry is a control row of the kind `audit`, written with the operations of its
 * change; the store moves it into a table of its own, where nothing changes it (store.ts).
 */
import type { Now } from './now.ts';
import { randomName, type RandomState } from './random.ts';

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
const MAX_FACTS = 8_192;
const MAX_TEXT = 500;
const RANDOM_LENGTH = 8;
/** Digits of a time in ms: keys are in the order of time until the year 2286. */
const TIME_DIGITS = 13;

/** Returns the row of an entry: its key, in order of time within the account, and its value. */
export function auditRow(random: RandomState, { wall }: Now, entry: AuditEntry): { readonly key: string; readonly value: string } {
  const at = Math.trunc(wall);
  const { before, after } = bounded(entry);
  const value = { at, ...entry, before, after };
  return {
    key: `${entry.account}/${String(at).padStart(TIME_DIGITS, '0')}${randomName(random, RANDOM_LENGTH)}`,
    value: JSON.stringify(value),
  };
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
