/**
 * Load at a fixed rate: requests begin when their time has come, whatever became of those before,
 * and their latency counts from that time. So a stall shows in the percentiles; so does, for every
 * subject alike, up to a millisecond that the driver is late.
 */
import { build } from 'hdr-histogram-js';

import { Connection } from './connection.ts';
import { summarize, type Latency } from './load.ts';
import type { PreparedRequest } from './request.ts';

export interface PacedResult {
  readonly latency: Latency;
  /** How late the requests were sent: a driver that waits for a core, or for its timer. */
  readonly late: Latency;
  readonly answers: number;
  /** Warm-up included. */
  readonly sent: number;
  /** Answers that were not 2xx, lost connections, and requests that found no connection free. */
  readonly errors: number;
}

const MAX_CONNECTIONS = 512;
/** After the end, open requests have this long to be answered, ms. */
const DRAIN_MS = 10_000;

export async function runPaced(request: PreparedRequest, perSecond: number, durationMs: number, warmupMs: number): Promise<PacedResult> {
  const histogram = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  const late = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  const free: Connection[] = [];
  const all: Connection[] = [];
  let errors = 0;
  let answers = 0;
  let open = 0;
  // Resolved whenever none is open; only looked at after the last one was sent.
  let idle = Promise.withResolvers<void>();
  const start = performance.now();
  const send = (dueAt: number): void => {
    if (dueAt - start >= warmupMs) late.recordValue(Math.max(1, Math.round((performance.now() - dueAt) * 1000)));
    let connection = free.pop();
    if (connection === undefined) {
      if (all.length >= MAX_CONNECTIONS) {
        errors += 1;
        return;
      }
      connection = new Connection(request.host, request.port);
      all.push(connection);
    }
    const used = connection;
    open += 1;
    const over = (): void => {
      open -= 1;
      free.push(used);
      if (open === 0) idle.resolve();
    };
    used.send(
      request.bytes,
      ({ response }) => {
        over();
        if (response.status >= 200 && response.status < 300) answers += 1;
        else errors += 1;
        if (dueAt - start >= warmupMs) histogram.recordValue(Math.max(1, Math.round((performance.now() - dueAt) * 1000)));
      },
      () => {
        over();
        errors += 1;
      },
    );
  };
  let sent = 0;
  await new Promise<void>((resolve) => {
    const tick = (): void => {
      const now = performance.now() - start;
      if (now >= durationMs + warmupMs) {
        resolve();
        return;
      }
      for (; (sent * 1000) / perSecond <= now; sent += 1) send(start + (sent * 1000) / perSecond);
      // A loop without a pause would take a core from the subject.
      setTimeout(tick, 1);
    };
    tick();
  });
  idle = Promise.withResolvers<void>();
  if (open > 0) await Promise.race([idle.promise, new Promise((resolve) => setTimeout(resolve, DRAIN_MS).unref())]);
  for (const connection of all) connection.close();
  return { latency: summarize(histogram), late: summarize(late), answers, sent, errors: errors + open };
}
