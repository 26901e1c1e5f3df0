/** Values of messages in the schema: the only place where a zero or an empty text becomes null. */
import { CapstanError } from '../../lib/errors.ts';

/** An empty text of a message is absent. */
export function orNull(text: string): string | null {
  return text === '' ? null : text;
}

export function time(ms: bigint): string {
  return new Date(Number(ms)).toISOString();
}

/** 0 means unknown, or never. */
export function timeOrNull(ms: bigint): string | null {
  return ms === 0n ? null : time(ms);
}

type EnumName<Values> = Exclude<keyof Values, 'UNSPECIFIED' | 'UNRECOGNIZED'>;

/** Returns a value's name in the schema; undefined for one that only a newer scheduler knows. */
export function knownName<Values extends Readonly<Record<string, string>>>(
  values: Values,
  value: Values[keyof Values],
): EnumName<Values> | undefined {
  const name = Object.keys(values).find((each) => values[each] === value);
  return name === undefined || name === 'UNSPECIFIED' || name === 'UNRECOGNIZED' ? undefined : (name as EnumName<Values>);
}

/** Throws CapstanError INTERNAL for a value that only a newer scheduler knows. */
export function nameOf<Values extends Readonly<Record<string, string>>>(values: Values, value: Values[keyof Values]): EnumName<Values> {
  const name = knownName(values, value);
  if (name === undefined) throw new CapstanError('INTERNAL', `the scheduler sent an unknown value: ${value}`);
  return name;
}

/** Returns a part of a reply that schedulers always send. Throws CapstanError INTERNAL without it. */
export function present<T>(part: T | undefined, name: string): T {
  if (part === undefined) throw new CapstanError('INTERNAL', `the scheduler sent a reply without its ${name}`);
  return part;
}
