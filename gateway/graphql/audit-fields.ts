/** The audit log. */
import type { AuditEntry } from '../../proto/gen/capstan/v1/control.ts';
import { whole } from './endpoint-form.ts';
import type { Fields } from './fields.ts';
import type * as Schema from './gen/schema.ts';
import { orNull, time } from './message-values.ts';

export function auditFields({ calls }: Fields) {
  return {
    audit: async ({ account, before, limit }) => {
      const request = { account: account ?? '', beforeId: before ?? '', limit: whole('limit', limit ?? 0) };
      const { entries, nextBeforeId } = (await calls.ofAccount(account ?? '', (control) => control.listAudit, request)).reply;
      return { entries: entries.map(entryShape), next: orNull(nextBeforeId) };
    },
  } satisfies Partial<Schema.Root>;
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
