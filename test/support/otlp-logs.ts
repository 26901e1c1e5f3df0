/** Log records as a receiver of OTLP in JSON reads them. */

interface Value {
  readonly stringValue?: string;
  readonly boolValue?: boolean;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
}

interface KeyValue {
  readonly key: string;
  readonly value: Value;
}

interface ExportRequest {
  readonly resourceLogs: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeLogs: readonly {
      readonly scope: { readonly name: string };
      readonly logRecords: readonly {
        readonly timeUnixNano: string;
        readonly severityNumber?: number;
        readonly severityText?: string;
        readonly body: Value;
        readonly attributes: readonly KeyValue[];
        readonly droppedAttributesCount?: number;
        readonly traceId?: string;
        readonly spanId?: string;
      }[];
    }[];
  }[];
}

export interface DecodedRecord {
  readonly resource: Readonly<Record<string, unknown>>;
  readonly scope: string;
  /** ns since 1970. */
  readonly time: bigint;
  readonly severity: string;
  readonly severityNumber: number;
  readonly body: unknown;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly traceId: string;
  readonly spanId: string;
}

/** Decodes the body of one request. */
export function recordsIn(body: Buffer): DecodedRecord[] {
  const { resourceLogs } = JSON.parse(body.toString()) as ExportRequest;
  return resourceLogs.flatMap(({ resource, scopeLogs }) =>
    scopeLogs.flatMap(({ scope, logRecords }) =>
      logRecords.map((record) => ({
        resource: valuesOf(resource.attributes),
        scope: scope.name,
        time: BigInt(record.timeUnixNano),
        severity: record.severityText ?? '',
        severityNumber: record.severityNumber ?? 0,
        body: valueOf(record.body),
        attributes: valuesOf(record.attributes),
        traceId: record.traceId ?? '',
        spanId: record.spanId ?? '',
      })),
    ),
  );
}

function valuesOf(pairs: readonly KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, valueOf(value)]));
}

function valueOf(value: Value): unknown {
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? (value.intValue === undefined ? undefined : Number(value.intValue));
}
