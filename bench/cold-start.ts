/**
 * Time from zero workers to the handler: sends a job to an endpoint without a worker, through the whole stack. The
 * handler returns the time at which it was entered. Between two jobs the worker ends by its idle timeout and the spare
 * that it used is replaced, as in a real pause. Containers run in the bench's own Docker daemon, which already has the
 * image.
 *
 *   node bench/cold-start.ts [--rounds 15] [--only thread,node-process,…] [--isolation sandbox]
 */
import { once } from 'node:events';
import { Agent, request, type ClientRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { noEngine, startEngine } from '../test/support/container/private-engine.ts';
import { startStack, waitForHealth, type Stack } from './stack.ts';

/** Goals for the p50, ms. */
const goals = { thread: 60, 'node-process': 60, 'python-process': 40, 'node-container': 500, 'python-container': 500 } as const;
type Runtime = keyof typeof goals;

/**
 * Pause after a worker has ended, in which its spare is restarted. A real pause is longer. A busy machine takes seconds
 * to start a container.
 */
const REFILL_MS = { process: 1_500, container: 6_000 } as const;
const WARM_UP = 1;

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, only: { type: 'string' }, isolation: { type: 'string', default: 'auto' } },
});
const rounds = Number(values.rounds);
const chosen = (Object.keys(goals) as Runtime[]).filter((runtime) => values.only?.split(',').includes(runtime) ?? true);
const needsEngine = chosen.some((runtime) => runtime.endsWith('-container'));
const engine = needsEngine && noEngine === undefined ? await startEngine(['capstan/base-node', 'capstan/base-python']) : undefined;
const agent = new Agent({ keepAlive: true });
let stack: Stack | undefined;
try {
  stack = await startStack(undefined, join(import.meta.dirname, 'cold-start-app'), {
    CAPSTAN_CONTAINER_SOCKET: engine?.socket ?? 'none',
    CAPSTAN_ISOLATION: values.isolation,
  });
  for (const runtime of chosen) {
    if (engine === undefined && runtime.endsWith('-container')) {
      process.stdout.write(`${runtime}: left out, a container engine of its own ${noEngine ?? ''}\n`);
      continue;
    }
    const pauseMs = runtime.endsWith('-container') ? REFILL_MS.container : REFILL_MS.process;
    const times: number[] = [];
    for (let round = 0; round < rounds + WARM_UP; round++) {
      const ms = await coldStart(stack, stack.endpoints.get(runtime) ?? '', round, pauseMs);
      // The first job also fetches and unpacks the build.
      if (round < WARM_UP) process.stdout.write(`${runtime}: first of all, with the build fetched: ${ms.toFixed(1)} ms\n`);
      else times.push(ms);
    }
    times.sort((a, b) => a - b);
    const at = (share: number): string => (times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0).toFixed(1);
    process.stdout.write(
      `${runtime}: p50 ${at(0.5)} ms (goal ${goals[runtime]} ms), p90 ${at(0.9)} ms, min ${at(0)} ms, max ${at(1)} ms, ${times.length} starts\n`,
    );
  }
} finally {
  agent.destroy();
  await stack?.close();
  await engine?.stop();
}

/** Sends one job to an endpoint that has no worker. Returns the time until its handler was entered, ms. */
async function coldStart(stack: Stack, endpoint: string, n: number, pauseMs: number): Promise<number> {
  const { url, apiKey } = stack;
  await waitForHealth(stack, endpoint, 'no worker is left', ({ workers }) => Object.values(workers).every((count) => count === 0));
  await pause(pauseMs);
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const call: ClientRequest = request(`${url}/v2/${endpoint}/runsync`, { method: 'POST', headers, agent });
  const answered = once(call, 'response') as Promise<[IncomingMessage]>;
  const sent = performance.timeOrigin + performance.now();
  call.end(JSON.stringify({ input: { n } }));
  const [response] = await answered;
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  const document = JSON.parse(text) as { status?: string; output?: { at: number } };
  if (document.status !== 'COMPLETED' || document.output === undefined) throw new Error(`the job did not complete: ${text}`);
  return document.output.at - sent;
}
