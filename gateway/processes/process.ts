/** One of several processes of a gateway on one port: a gateway of its own to schedulers and agents. The primary starts it and ends it. */
import { setTimeout as pause } from 'node:timers/promises';

import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { start, type Gateway } from '../assembly/start.ts';
import { createLog } from '../log.ts';
import type { MetricData } from '../metrics/joined-figures.ts';
import { LAST_FIGURES, type FromProcess, type ToProcess } from './messages.ts';

/** Time limit for the primary's reply to the last request, ms. */
const LEAVE_MS = 4_000;

/** Requests to the primary that wait for its reply, by id. */
const waiting = new Map<number, (reply: ToProcess) => void>();
let lastId = LAST_FIGURES;
let gateway: Gateway | undefined;

function send(message: FromProcess): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
    else resolve();
  });
}

/** Without the primary this process ends, and with it what waits for a reply. */
function request(message: (id: number) => FromProcess): Promise<ToProcess> {
  lastId += 1;
  const id = lastId;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    void send(message(id));
  });
}

async function gatherFigures(): Promise<readonly (readonly MetricData[])[]> {
  const reply = await request((id) => ({ type: 'scrape', id }));
  return reply.type === 'scraped' ? reply.metrics : [];
}

async function takeRate(name: string): Promise<boolean> {
  const reply = await request((id) => ({ type: 'take', id, name }));
  return reply.type === 'taken' && reply.isAllowed;
}

async function serve({ config, process: index }: Extract<ToProcess, { type: 'start' }>): Promise<void> {
  try {
    gateway = await start(config, { log: createLog(config.logLevel, { process: index }), gatherFigures, takeRate });
    await send({ type: 'serving', url: gateway.url });
  } catch (error) {
    const known = error instanceof CapstanError ? error : new CapstanError('INTERNAL', messageOf(error));
    await send({ type: 'failed', code: known.code, message: known.message, ...(known.field === undefined ? {} : { field: known.field }) });
    process.exit(1);
  }
}

async function sendFigures(id: number): Promise<void> {
  if (gateway !== undefined) await send({ type: 'metrics', id, metrics: [...(await gateway.figures())] });
}

async function end(): Promise<void> {
  await gateway?.close();
  // The primary may have passed a connection on before it knew that this process listens no more. The refusal of it is on its way before
  // the reply is handled, and another process gets it. A primary of an earlier version does not reply.
  await Promise.race([request((id) => ({ type: 'leave', id })), pause(LEAVE_MS)]);
  await sendFigures(LAST_FIGURES);
  process.exit(0);
}

async function handle(message: ToProcess): Promise<void> {
  if (message.type === 'start') await serve(message);
  else if (message.type === 'collect') await sendFigures(message.id);
  else if (message.type === 'close') await end();
  else {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
}

// The terminal and service managers send signals to every process: the primary ends this one in order.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => undefined);
process.on('message', (message: ToProcess) => void handle(message));
void send({ type: 'ready' });
