/** The audit log. */
import type { AuditEntry, AuditFilter } from '../../proto/gen/capstan/v1/control.ts';
import { whole } from './endpoint-form.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { milliseconds } from './job-shape.ts';
import { orNull, time } from './message-values.ts';

export function auditFields({ calls }: Fields) {
  return {
    audit: async ({ account, before, limit, filter }) => {
      const request = {
        ...{ account: account ?? '', beforeId: before ?? '', limit: whole('limit', limit ?? 0) },
        filter: filter == null ? undefined : filterOf(filter),
      };
      const { entries, nextBeforeId } = (await calls.ofAccount(account ?? '', (control) => control.listAudit, request)).reply;
      return { entries: entries.map(entryShape), next: orNull(nextBeforeId) };
    },
  } satisfies Partial<Schema.Root>;
}

function filterOf({ key, action, object, sinceMs, untilMs }: Schema.AuditFilter): AuditFilter {
  return {
    ...{ key: key ?? '', action: action ?? '', object: object ?? '' },
    sinceMs: milliseconds('filter.sinceMs', sinceMs ?? 0),
    untilMs: milliseconds('filter.untilMs', untilMs ?? 0),
  };
}

function entryShape({ id, atMs, key, keyName, address, action, object, beforeJson, afterJson }: AuditEntry): Schema.AuditEntry {
  return {
    ...{ id, key, keyName, action, object },
    at: time(atMs),
    address: orNull(address),
    before: jsonOf(beforeJson),
    after: jsonOf(afterJson),
  };
}

function jsonOf(text: string): unknown {
  return text === '' ? null : JSON.parse(text);
}
