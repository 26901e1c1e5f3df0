/** Forwards the lines of workers to a receiver of OpenTelemetry's log records, where one is configured. */
import { hostname } from 'node:os';

import type { Logger } from 'pino';

import { otlpExport } from '../../../lib/telemetry/otlp-protocol.ts';
import { resourceAttributes } from '../../../lib/telemetry/resource.ts';
import type { LogForwarding } from '../../../proto/gen/capstan/v1/nodes.ts';
import { DropReport } from './drop-report.ts';
import { ForwardQueue, type Timers } from './forward-queue.ts';
import type { ForwardedLine } from './log-record.ts';
import { ThreadSender } from './thread-sender.ts';

export interface ForwardingConfig {
  readonly otelEnv: Readonly<Record<string, string>>;
  readonly forwardQueueLines: number;
  readonly forwardBatchLines: number;
  readonly forwardDelayMs: number;
  readonly forwardTimeoutMs: number;
}

export interface ForwardingDeps {
  readonly version: string;
  /** What tells this agent from others; read with the first line. */
  readonly instanceId: () => string;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  readonly timers?: Timers;
}

const SYSTEM_TIMERS: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

export class LogForwarder {
  readonly #queue: ForwardQueue;
  readonly #report: DropReport;
  #sent = 0;
  #dropped = 0;

  /** Returns undefined where no receiver is configured. Throws CONFIG for a variable that is not supported. */
  static open(config: ForwardingConfig, { version, instanceId, log, timers = SYSTEM_TIMERS }: ForwardingDeps): LogForwarder | undefined {
    const target = otlpExport('LOGS', config.otelEnv);
    if (target === undefined) return undefined;
    const { protocol, receiver } = target;
    const resourceOf = (instance: string): Record<string, string> =>
      resourceAttributes({ part: 'agent', version, instanceId: instance, hostName: hostname() }, config.otelEnv);
    // Refuses invalid attributes now, not with the first line.
    resourceOf('');
    const sender = new ThreadSender({
      env: config.otelEnv,
      data: () => ({ protocol, resource: resourceOf(instanceId()), version }),
      timeoutMs: config.forwardTimeoutMs,
    });
    log.info({ receiver, protocol }, 'log lines of workers are forwarded');
    return new LogForwarder(config, sender, new DropReport(receiver, log, timers), timers);
  }

  private constructor(config: ForwardingConfig, sender: ThreadSender, report: DropReport, timers: Timers) {
    this.#report = report;
    this.#queue = new ForwardQueue({
      sender,
      timers,
      maxLines: config.forwardQueueLines,
      batchLines: Math.min(config.forwardBatchLines, config.forwardQueueLines),
      delayMs: config.forwardDelayMs,
      onSent: (lines) => (this.#sent += lines),
      onDropped: (lines, reason) => {
        this.#dropped += lines;
        report.add(lines, reason);
      },
    });
  }

  /** Lines since the agent's start. */
  get counts(): LogForwarding {
    return { sent: BigInt(this.#sent), dropped: BigInt(this.#dropped) };
  }

  /** Never waits: a line that finds no room is dropped and counted. */
  add(line: ForwardedLine): void {
    this.#queue.add(line);
  }

  async close(): Promise<void> {
    await this.#queue.close();
    this.#report.close();
  }
}
