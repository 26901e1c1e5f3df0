/**
 * Time from the client's write of the request to the handler's first statement, one job at a time on an idle, warm
 * worker. Both ends read the host's monotonic clock, which all its processes share.
 */
import { build } from 'hdr-histogram-js';

import { Connection, type Exchange } from './driver/connection.ts';
import { summarize, type Latency } from './driver/load.ts';
import { prepareRequest } from './driver/request.ts';
import type { Stack } from './stack.ts';

export interface StartLatency {
  readonly jobs: number;
  /** From the client's write to the handler's entry, ms. */
  readonly start: Latency;
  /** From the client's write to the read of the result, ms. */
  readonly roundTrip: Latency;
  readonly errors: number;
  readonly examples: readonly string[];
}

export async function measureStart(stack: Stack, endpoint: string, jobs: number, warmup: number): Promise<StartLatency> {
  const { host, port, bytes } = prepareRequest({
    url: `${stack.url}/v2/${endpoint}/runsync`,
    headers: { authorization: `Bearer ${stack.apiKey}` },
    body: '{"input":{}}',
  });
  const connection = new Connection(host, port);
  /** Microseconds. */
  const start = build({ numberOfSignificantValueDigits: 3 });
  const roundTrip = build({ numberOfSignificantValueDigits: 3 });
  const examples: string[] = [];
  let errors = 0;
  for (let index = 0; index < warmup + jobs; index += 1) {
    const sentAt = process.hrtime.bigint();
    const { ms, response } = await new Promise<Exchange>((resolve, reject) => connection.send(bytes, resolve, reject));
    const text = response.body.toString('utf8');
    const enteredAt = response.status === 200 ? stampOf(text) : null;
    if (enteredAt === null) {
      errors += 1;
      if (examples.length < 3) examples.push(`status ${response.status}: ${text.slice(0, 300)}`);
    } else if (index >= warmup) {
      start.recordValue(Math.max(1, Math.round(Number(enteredAt - sentAt) / 1000)));
      roundTrip.recordValue(Math.max(1, Math.round(ms * 1000)));
    }
  }
  connection.close();
  return { jobs: start.totalCount, start: summarize(start), roundTrip: summarize(roundTrip), errors, examples };
}

/** The handler's timestamp in the response of a completed job. */
function stampOf(text: string): bigint | null {
  const answer = JSON.parse(text) as { status?: string; output?: unknown };
  return answer.status === 'COMPLETED' && typeof answer.output === 'string' ? BigInt(answer.output) : null;
}
