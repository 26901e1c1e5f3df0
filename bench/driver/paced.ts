/**
 * Load at a fixed rate: each request starts at its scheduled time, whatever the state of earlier requests, and its
 * latency counts from that time. A stall therefore shows in the percentiles. So does the driver's own delay of up to a
 * millisecond, which is the same for every subject.
 */
import { build } from 'hdr-histogram-js';

import { Connection } from './connection.ts';
import { summarize, type Latency } from './load.ts';
import type { PreparedRequest } from './request.ts';

export interface PacedResult {
  readonly latency: Latency;
  /** Delay with which the requests were sent: the driver waited for a core or for its timer. */
  readonly late: Latency;
  readonly answers: number;
  /** Including the warm-up. */
  readonly sent: number;
  /** Responses other than 2xx, lost connections, and requests that found no free connection. */
  readonly errors: number;
}

const MAX_CONNECTIONS = 512;
/** Time after the end within which open requests must be answered, ms. */
const DRAIN_MS = 10_000;

export async function runPaced(request: PreparedRequest, perSecond: number, durationMs: number, warmupMs: number): Promise<PacedResult> {
  const histogram = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  const late = build({ highestTrackableValue: 600_000_000, numberOfSignificantValueDigits: 3 });
  const free: Connection[] = [];
  const all: Connection[] = [];
  let errors = 0;
  let answers = 0;
  let open = 0;
  // Resolves whenever no request is open. Read only after the last request was sent.
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
