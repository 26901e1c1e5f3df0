/** Entries of the audit log: what a call changes, and the log as it is read. */
import type { Metadata } from '@grpc/grpc-js';

import { valuesOf } from '../../lib/endpoint-settings.ts';
import type { ControlServiceServer, EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import { MAX_FACTS, type AuditEntry, type AuditFacts } from '../core/audit.ts';
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

export function auditHandlers({ engine, auth, log }: ControlDeps): Pick<ControlServiceServer, 'listAudit'> {
  return {
    listAudit: unary(log, 'ListAudit', async ({ account: wanted, beforeId, limit }, metadata) => {
      const own = auth.account(metadata, wanted);
      if (wanted !== '' && wanted !== own) auth.operator(metadata);
      const account = wanted === '' ? own : wanted;
      const size = limit === 0 ? DEFAULT_PAGE : Math.min(limit, MAX_PAGE);
      // The id of another account's entry would begin there.
      const before = beforeId.startsWith(`${account}/`) ? beforeId : '';
      const rows = await engine.search('audit', account, before, size);
      return {
        entries: rows.map(({ id, value }) => {
          const { at, before: from, after, ...entry } = JSON.parse(value) as AuditEntry & { readonly at: number };
          return { ...entry, id, atMs: BigInt(at), beforeJson: jsonOf(from), afterJson: jsonOf(after) };
        }),
        nextBeforeId: rows.length < size ? '' : (rows.at(-1)?.id ?? ''),
      };
    }),
  };
}

function jsonOf(facts: AuditFacts | null): string {
  return facts === null ? '' : JSON.stringify(facts);
}
