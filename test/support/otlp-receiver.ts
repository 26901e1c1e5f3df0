/** A receiver of OTLP over HTTP with JSON, as tests stand it in for a collector. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { ExecutionContext } from 'ava';

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}

interface KeyValue {
  readonly key: string;
  readonly value: Value;
}

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly KeyValue[];
  readonly status: { readonly code?: number; readonly message?: string };
}

interface TraceExport {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes?: readonly KeyValue[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

export interface ReceivedSpan {
  /** The attribute service.name. */
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the root of a trace. */
  readonly parentId: string;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly failure: string | undefined;
}

/** The code of a failed span. */
const FAILED = 2;

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** Of all requests. */
  readonly headers: IncomingHttpHeaders[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        this.headers.push(request.headers);
        if (request.url === '/v1/traces') this.#take(JSON.parse(Buffer.concat(parts).toString()) as TraceExport);
        response.setHeader('content-type', 'application/json').end('{}');
      });
    });
  }

  static async start(t: ExecutionContext): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    t.teardown(() => {
      receiver.#server.closeAllConnections();
      receiver.#server.close();
    });
    return receiver;
  }

  url(path = ''): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
  }

  /** The variables that let parts export here, soon after the end of each span. */
  get variables(): Readonly<Record<string, string>> {
    return { OTEL_EXPORTER_OTLP_ENDPOINT: this.url(), OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_BSP_SCHEDULE_DELAY: '50' };
  }

  of(traceId: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.traceId === traceId);
  }

  #take({ resourceSpans }: TraceExport): void {
    for (const { resource, scopeSpans } of resourceSpans) {
      const service = String(valuesOf(resource.attributes)['service.name']);
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({
          service,
          name: span.name,
          traceId: span.traceId,
          spanId: span.spanId,
          parentId: span.parentSpanId ?? '',
          startNs: BigInt(span.startTimeUnixNano),
          endNs: BigInt(span.endTimeUnixNano),
          attributes: valuesOf(span.attributes),
          failure: span.status.code === FAILED ? (span.status.message ?? '') : undefined,
        });
      }
    }
  }
}

function valuesOf(attributes: readonly KeyValue[] = []): ReceivedSpan['attributes'] {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue)]),
  );
}
