/** An entry of the audit log as a log record of OpenTelemetry. */
import { SeverityNumber } from '@opentelemetry/api-logs';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';

import type { AuditEntry, AuditFacts } from '../core/audit.ts';
import type { AuditRow } from '../core/ports/store.ts';

/** What is the same for all records; exporters group records by these objects. */
export type AuditOrigin = Pick<ReadableLogRecord, 'resource' | 'instrumentationScope'>;

type TimedEntry = AuditEntry & { readonly at: number };

/** When the entry of a row was written, wall clock ms. */
export function timeOf({ value }: AuditRow): number {
  return (JSON.parse(value) as TimedEntry).at;
}

export function auditRecord({ id, value }: AuditRow, origin: AuditOrigin): ReadableLogRecord {
  const { at, account, key, keyName, address, action, object, before, after } = JSON.parse(value) as TimedEntry;
  const time: [number, number] = [Math.floor(at / 1_000), (at % 1_000) * 1_000_000];
  const facts = {
    'capstan.audit.id': id,
    'capstan.audit.action': action,
    'capstan.audit.object': object,
    'capstan.audit.before': textOf(before),
    'capstan.audit.after': textOf(after),
    'capstan.account': account,
    'capstan.key.id': key,
    'capstan.key.name': keyName,
    'client.address': address,
  };
  return {
    ...origin,
    hrTime: time,
    hrTimeObserved: time,
    eventName: 'capstan.audit',
    severityText: 'info',
    severityNumber: SeverityNumber.INFO,
    body: wellFormed(object === '' ? action : `${action} ${object}`),
    attributes: Object.fromEntries(Object.entries(facts).flatMap(([name, text]) => (text === '' ? [] : [[name, wellFormed(text)]]))),
    droppedAttributesCount: 0,
  };
}

function textOf(facts: AuditFacts | null): string {
  return facts === null ? '' : JSON.stringify(facts);
}

/** Receivers refuse a whole batch for text that is no valid Unicode. */
function wellFormed(text: string): string {
  return text.toWellFormed();
}
