/**
 * Sends entries of the audit log by OTLP. A batch has a bound of its own: a receiver that neither takes nor refuses it loses its
 * connections, and the next batch begins with new ones.
 */
import type { Agent } from 'node:http';

import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import type { LogRecordExporter } from '@opentelemetry/sdk-logs';

import { exportFailure } from '../../lib/telemetry/export-failure.ts';
import { openLogExporter } from '../../lib/telemetry/open-log-exporter.ts';
import type { OtlpProtocol } from '../../lib/telemetry/otlp-protocol.ts';
import type { AuditRow } from '../core/ports/store.ts';
import type { AuditSender, SendOutcome } from './audit-export.ts';
import { auditRecord, type AuditOrigin } from './audit-record.ts';

export interface OtlpTarget {
  readonly protocol: OtlpProtocol;
  readonly url: string;
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, string>>;
  readonly version: string;
  /** Longest time of a batch, tries of the library included, ms. */
  readonly timeoutMs: number;
}

interface Connection {
  readonly exporter: LogRecordExporter;
  readonly agents: Agent[];
}

/** What a receiver answers of data that it will never take: statuses of HTTP, and INVALID_ARGUMENT of gRPC. */
const REFUSED = { http: new Set<unknown>([400, 413, 422]), grpc: new Set<unknown>([3]) } as const;
const ABANDONED: SendOutcome = { kind: 'failed', reason: 'time-out', isRefused: false };

export class OtlpSender implements AuditSender {
  readonly #target: OtlpTarget;
  readonly #origin: AuditOrigin;
  #connection: Connection | undefined;
  #cancel: (() => void) | undefined;
  #isClosed = false;

  constructor(target: OtlpTarget) {
    this.#target = target;
    this.#origin = {
      resource: defaultResource().merge(resourceFromAttributes(target.resource)),
      instrumentationScope: { name: 'capstan.audit', version: target.version },
    };
  }

  async send(rows: readonly AuditRow[]): Promise<SendOutcome> {
    this.#connection ??= await this.#open();
    const { exporter } = this.#connection;
    if (this.#isClosed) {
      this.#drop();
      return ABANDONED;
    }
    const { promise, resolve } = Promise.withResolvers<SendOutcome>();
    const cancel = (): void => resolve(ABANDONED);
    this.#cancel = cancel;
    const timer = setTimeout(cancel, this.#target.timeoutMs);
    exporter.export(
      rows.map((row) => auditRecord(row, this.#origin)),
      // ExportResultCode.SUCCESS is 0.
      ({ code, error }) => resolve(code === 0 ? { kind: 'sent' } : this.#failed(error)),
    );
    try {
      const outcome = await promise;
      if (outcome === ABANDONED) this.#drop();
      return outcome;
    } finally {
      clearTimeout(timer);
      this.#cancel = undefined;
    }
  }

  /** Gives up what is being sent. */
  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#drop();
  }

  async #open(): Promise<Connection> {
    const { protocol, url } = this.#target;
    const agents: Agent[] = [];
    const exporter = await openLogExporter(protocol, {
      url,
      httpAgentOptions: async (scheme) => {
        const { Agent: Made } = scheme === 'https:' ? await import('node:https') : await import('node:http');
        const agent = new Made({ keepAlive: true });
        agents.push(agent);
        return agent;
      },
    });
    return { exporter, agents };
  }

  #failed(error: unknown): SendOutcome {
    const isGrpc = this.#target.protocol === 'grpc';
    const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
    return { kind: 'failed', reason: exportFailure(error, isGrpc), isRefused: REFUSED[isGrpc ? 'grpc' : 'http'].has(code) };
  }

  #drop(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    for (const agent of connection?.agents ?? []) {
      // The library would send the batch once more, beside those of the next connection.
      agent.maxSockets = 0;
      agent.destroy();
    }
    // What it still holds was counted as not sent.
    connection?.exporter.shutdown().catch(() => undefined);
  }
}
