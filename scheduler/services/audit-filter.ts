/** Which entries of the audit log a filter admits. Pure. */
import { CapstanError } from '../../lib/errors.ts';
import type { AuditFilter } from '../../proto/gen/capstan/v1/control.ts';
import type { AuditEntry, AuditFacts } from '../core/audit.ts';

const MAX_TEXT = 500;

/** An entry with its time, wall clock ms. */
export type TimedEntry = AuditEntry & { readonly at: number };

/** @throws CapstanError INVALID_ARGUMENT */
export function checkAuditFilter(filter: AuditFilter): void {
  for (const field of ['key', 'action', 'object'] as const)
    if (filter[field].length > MAX_TEXT)
      throw new CapstanError('INVALID_ARGUMENT', `filter.${field}: must be at most ${MAX_TEXT} characters`, { field: `filter.${field}` });
  for (const [field, value] of [
    ['sinceMs', filter.sinceMs],
    ['untilMs', filter.untilMs],
  ] as const)
    if (value < 0n) throw new CapstanError('INVALID_ARGUMENT', `filter.${field}: must be at least 0`, { field: `filter.${field}` });
}

/** Whether the filter admits an entry; its times are not compared. */
export function admits({ key, action, object }: AuditFilter, entry: AuditEntry): boolean {
  if (key !== '' && entry.key !== key && entry.keyName !== key) return false;
  if (action !== '' && entry.action !== action) return false;
  return object === '' || objectsOf(entry).some((each) => hasParts(each, object));
}

/** Whether `wanted` are whole parts of a path: `chat` and `default/chat` of `default/chat`, but not of `default/chat2`. */
function hasParts(path: string, wanted: string): boolean {
  return `/${path}/`.includes(`/${wanted}/`);
}

/** What an entry is about: its object, and the endpoints that a deployment or a deletion of several names. */
function objectsOf({ object, before, after }: AuditEntry): string[] {
  const names = new Set([...endpointNames(before), ...endpointNames(after)]);
  return [object, ...[...names].map((name) => `${object}/${name}`)];
}

function endpointNames(facts: AuditFacts | null): string[] {
  const endpoints = facts?.['endpoints'];
  if (Array.isArray(endpoints)) return endpoints.filter((each) => typeof each === 'string');
  return typeof endpoints === 'object' && endpoints !== null ? Object.keys(endpoints) : [];
}
