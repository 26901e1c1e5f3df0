/** Callers of a stack with several schedulers, and what they notice when its owner fails or stops. */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from 'pg';

import { killIfThere, type HistoryStack } from '../../test/history/stack/stack.ts';

/** What happens to the owner: its process is killed, or stops without a word to anybody, or is asked to end (SIGTERM). */
export type Loss = 'kill' | 'pause' | 'handover';

export interface Failover {
  readonly loss: Loss;
  /** From the loss until the first job that was submitted after it completed, ms. */
  readonly firstMs: number;
  /** Longest time in which no job completed, ms. */
  readonly gapMs: number;
  /** Responses with a status of 500 or above, and calls without a response. */
  readonly errors: number;
}

interface Call {
  readonly sentAt: number;
  readonly doneAt: number;
  readonly ok: boolean;
}

const CALLERS = 8;
/** Between two calls of one caller, ms. */
const REST_MS = 20;
/** Load before the loss, and after the first completion. */
const AROUND_MS = 1_500;
const LIMIT_MS = 60_000;
const LOOK_MS = 50;

/** Causes one loss under a steady load of /runsync, and waits until the stack is whole again. */
export async function failover(stack: HistoryStack, loss: Loss): Promise<Failover> {
  const owner = await whole(stack);
  const calls: Call[] = [];
  const stopped = new AbortController();
  const callers = Array.from({ length: CALLERS }, () => callOften(stack, calls, stopped.signal));
  await pause(AROUND_MS);
  const pid = stack.parts.get(owner)?.pid;
  if (pid === undefined) throw new Error(`the owner ${owner} does not run`);
  const signal = { kill: 'SIGKILL', pause: 'SIGSTOP', handover: 'SIGTERM' } as const;
  const lostAt = performance.now();
  killIfThere(pid, signal[loss]);
  const isServed = (): boolean => calls.some(({ sentAt, ok }) => ok && sentAt > lostAt);
  while (!isServed() && performance.now() - lostAt < LIMIT_MS) await pause(LOOK_MS);
  await pause(AROUND_MS);
  if (loss === 'pause') killIfThere(pid, 'SIGCONT');
  stopped.abort();
  await Promise.all(callers);
  const ends = calls.filter(({ ok }) => ok).map(({ doneAt }) => doneAt);
  const after = calls.filter(({ sentAt, ok }) => ok && sentAt > lostAt).map(({ doneAt }) => doneAt - lostAt);
  if (after.length === 0) throw new Error(`no job completed within ${LIMIT_MS} ms after the ${loss}`);
  ends.sort((a, b) => a - b);
  return {
    loss,
    firstMs: Math.min(...after),
    gapMs: Math.max(...ends.map((at, i) => at - (ends[i - 1] ?? at))),
    errors: calls.filter(({ ok }) => !ok).length,
  };
}

async function callOften(stack: HistoryStack, calls: Call[], signal: AbortSignal): Promise<void> {
  const [gateway = ''] = stack.gateways;
  const url = `${stack.url(gateway)}/v2/${stack.endpoints.get('work') ?? ''}/runsync`;
  const headers = { authorization: `Bearer ${stack.apiKey}`, 'content-type': 'application/json' };
  const record = join(stack.folder, 'executions.jsonl');
  const body = JSON.stringify({ input: { input: 'x', record, ms: 0, failing: 0, bytes: 0 } });
  while (!signal.aborted) {
    const sentAt = performance.now();
    const ok = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(LIMIT_MS) }).then(
      async (response) => ((await response.json()) as { status?: string }).status === 'COMPLETED',
      () => false,
    );
    calls.push({ sentAt, doneAt: performance.now(), ok });
    await pause(REST_MS);
  }
}

/** Waits until every scheduler runs and stands by; returns the name of the owner. */
async function whole(stack: HistoryStack): Promise<string> {
  const { database } = stack;
  if (database === undefined) throw new Error('the stack has no database');
  await Promise.all([...stack.parts.values()].map((part) => part.ready));
  const client = new Client({ connectionString: database.url(database.address) });
  await client.connect();
  try {
    for (const limit = performance.now() + LIMIT_MS; performance.now() < limit; await pause(LOOK_MS)) {
      const { rows } = await client.query<{ address: string }>("SELECT address FROM capstan.cells WHERE name = 'default'");
      const waiting = await client.query<{ count: number }>(
        "SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
      );
      const name = stack.schedulers.find((each) => stack.address(each) === rows[0]?.address);
      if (name !== undefined && (waiting.rows[0]?.count ?? 0) >= stack.schedulers.length - 1) return name;
    }
  } finally {
    await client.end();
  }
  throw new Error(`the schedulers were not whole within ${LIMIT_MS} ms`);
}
