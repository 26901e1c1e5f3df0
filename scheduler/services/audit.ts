/** Entries of the audit log: what a call changes, and the log as it is read. */
import type { Metadata } from '@grpc/grpc-js';

import { valuesOf } from '../../lib/endpoint-settings.ts';
import type {
  AuditEntry as ProtoEntry,
  AuditFilter,
  ControlServiceServer,
  EndpointSpec,
  ListAuditResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import { auditIdAt, MAX_FACTS, type AuditEntry, type AuditFacts } from '../core/audit.ts';
import { admits, checkAuditFilter, type TimedEntry } from './audit-filter.ts';
import type { Authorizer } from './auth.ts';
import { DEFAULT_ACCOUNT } from './auth.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

export interface Change {
  readonly action: string;
  readonly object: string;
  readonly before?: AuditFacts | null;
  readonly after?: AuditFacts | null;
  /** Whose log has it: that of the operators if omitted, for hosts, cells and the service itself. */
  readonly account?: string;
}

/** @throws CapstanError RATE_LIMITED, so that it is called before the change. */
export function entryOf(
  auth: Authorizer,
  metadata: Metadata,
  { action, object, before = null, after = null, account = DEFAULT_ACCOUNT }: Change,
): AuditEntry {
  const bytes = JSON.stringify([action, object, before, after], (_name, each: unknown) =>
    typeof each === 'bigint' ? String(each) : each,
  ).length;
  return { account, ...auth.author(metadata, Math.min(bytes, MAX_FACTS)), action, object, before, after };
}

/** Returns the settings in which two specs of an endpoint differ. Of its environment, names only. */
export function settingsChange(before: EndpointSpec | null, after: EndpointSpec): Required<Pick<Change, 'before' | 'after'>> {
  const [from, to] = [before === null ? {} : factsOf(before), factsOf(after)];
  const changed = Object.keys(to).filter((name) => JSON.stringify(from[name]) !== JSON.stringify(to[name]));
  const pick = (facts: Record<string, unknown>): AuditFacts =>
    Object.fromEntries(changed.flatMap((name) => (facts[name] === undefined ? [] : [[name, facts[name]]])));
  return { before: before === null ? null : pick(from), after: pick(to) };
}

function factsOf(spec: EndpointSpec): Record<string, unknown> {
  const { functions, routes, rateLimits } = spec;
  return { ...valuesOf(spec), env: Object.keys(spec.env).toSorted(), functions: functions.map(({ name }) => name), routes, rateLimits };
}

const DEFAULT_PAGE = 100;
const MAX_PAGE = 1_000;
/** Entries that one call examines. */
const MAX_EXAMINED = 5_000;
const NO_FILTER: AuditFilter = { key: '', action: '', object: '', sinceMs: 0n, untilMs: 0n };

export function auditHandlers({ engine, auth, log }: ControlDeps): Pick<ControlServiceServer, 'listAudit'> {
  /** Reads on, newest first, until a page is full, the log ends or enough was examined. */
  async function page(account: string, begin: string, size: number, filter: AuditFilter): Promise<ListAuditResponse> {
    const entries: ProtoEntry[] = [];
    let before = begin;
    for (let examined = 0; examined < MAX_EXAMINED;) {
      const wanted = isEmpty(filter) ? size : MAX_PAGE;
      const rows = await engine.search('audit', account, before, wanted);
      for (const { id, value } of rows) {
        const entry = JSON.parse(value) as TimedEntry;
        if (entry.at < Number(filter.sinceMs)) return { entries, nextBeforeId: '' };
        before = id;
        if (!admits(filter, entry)) continue;
        entries.push(protoEntry(id, entry));
        if (entries.length === size) return { entries, nextBeforeId: id };
      }
      if (rows.length < wanted) return { entries, nextBeforeId: '' };
      examined += rows.length;
    }
    return { entries, nextBeforeId: before };
  }

  return {
    listAudit: unary(log, 'ListAudit', async ({ account: wanted, beforeId, limit, filter = NO_FILTER }, metadata) => {
      const own = auth.account(metadata, wanted);
      if (wanted !== '' && wanted !== own) auth.operator(metadata);
      checkAuditFilter(filter);
      const account = wanted === '' ? own : wanted;
      const size = limit === 0 ? DEFAULT_PAGE : Math.min(limit, MAX_PAGE);
      // The id of another account's entry would begin there.
      const cursor = beforeId.startsWith(`${account}/`) ? beforeId : '';
      return page(account, earlierOf(cursor, filter.untilMs === 0n ? '' : auditIdAt(account, Number(filter.untilMs))), size, filter);
    }),
  };
}

function isEmpty({ key, action, object }: AuditFilter): boolean {
  return key === '' && action === '' && object === '';
}

/** Returns the earlier of two ids to continue before; an empty one is the end of the log. */
function earlierOf(one: string, other: string): string {
  if (one === '' || other === '') return one + other;
  return one < other ? one : other;
}

function protoEntry(id: string, { at, before, after, ...entry }: TimedEntry): ProtoEntry {
  return { ...entry, id, atMs: BigInt(at), beforeJson: jsonOf(before), afterJson: jsonOf(after) };
}

function jsonOf(facts: AuditFacts | null): string {
  return facts === null ? '' : JSON.stringify(facts);
}
