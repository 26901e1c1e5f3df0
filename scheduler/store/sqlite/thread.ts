/**
 * The store thread: runs the engine, so that commits and checkpoints never block the main thread. Requests are answered
 * in order.
 *
 * After a batch that the database could not write, every later request is refused, because later batches assume that it
 * was written; the history, which nothing depends on, is no batch. A full disk rolls back the whole batch, so the next owner of the cell may continue; any other failure
 * is permanent.
 */
import { parentPort, workerData } from 'node:worker_threads';

import { SqliteEngine } from './engine.ts';
import { packOutcomes, unpackBatch } from './packing/batches.ts';
import { packResult } from './packing/results.ts';
import { toFailure, type StoreReply, type Failure, type Notice, type StoreRequest, type SnapshotEnd, type ThreadData } from './protocol.ts';

const port = parentPort;
if (port === null) throw new Error('thread.ts must run as a worker thread');

const data = workerData as ThreadData;
let engine: SqliteEngine | null = null;
let broken: Failure | null = null;
let checking: NodeJS.Timeout | undefined;

/** A slice of the check of the database may delay a batch by its length. */
const CHECK_SLICE_MS = 2;
const CHECK_PAUSE_MS = 20;

function answer(message: StoreReply): void {
  if (message instanceof ArrayBuffer) port?.postMessage(message, [message]);
  else port?.postMessage(message);
}

function open(): void {
  try {
    engine = new SqliteEngine({
      file: data.file,
      mustExist: data.mustExist,
      payloadKeys: data.payloadKeys,
      check: data.check,
      ...(data.checkpointPages === null ? {} : { checkpointPages: data.checkpointPages }),
    });
    engine.check.start();
    answer(null);
    checkLater(engine);
  } catch (error) {
    engine?.close();
    answer({ failure: toFailure(error) });
    port?.close();
  }
}

/** Checks a little more of the database now and then, until all of it was read. */
function checkLater(running: SqliteEngine): void {
  if (running.check.left.length === 0) return;
  checking = setTimeout(() => {
    try {
      running.check.slice(CHECK_SLICE_MS);
      checkLater(running);
    } catch (error) {
      lose(toFailure(error));
    }
  }, CHECK_PAUSE_MS);
}

/** The database is damaged: whatever is asked from now on fails, and the client is told without a request. */
function lose(failure: Failure): void {
  broken ??= failure;
  port?.postMessage({ lost: failure } satisfies Notice);
}

/** What no batch depends on. */
const ASIDE: ReadonlySet<string> = new Set(['read', 'history', 'save-history', 'queue-reasons', 'device-history']);

/** Runs a request. A failed read refuses only that read unless the database is damaged; a failed write other than a stale term ends the store. */
function ask(running: SqliteEngine, question: StoreRequest): void {
  try {
    if (question instanceof ArrayBuffer) {
      const { fence, ops } = unpackBatch(question);
      answer(packOutcomes(running.commit(fence, ops)));
    } else if (question.ask === 'read') {
      answer(packResult(question.query, running.read(question.query, ...(question.args as never))));
    } else if (question.ask === 'acquire') {
      answer({ value: running.acquire(question.cell, question.owner, question.forMs) });
    } else if (question.ask === 'save-history') {
      running.saveHistory(question.rows);
      answer(null);
    } else if (question.ask === 'history') {
      answer({ value: running.history(question.range) });
    } else if (question.ask === 'queue-reasons') {
      answer({ value: running.queueReasons(question.call, ...(question.args as never)) });
    } else if (question.ask === 'device-history') {
      running.changeDeviceHistory(question.change);
      answer(null);
    } else if (question.ask === 'payload-keys') {
      running.usePayloadKeys(question.keys);
      answer(null);
    } else if (question.ask === 'snapshot') {
      void snapshot(running, question);
      answer(null);
    } else {
      running.close();
      answer(null);
    }
  } catch (error) {
    const failure = toFailure(error);
    const isAside = !(question instanceof ArrayBuffer) && ASIDE.has(question.ask);
    if (!isAside && failure.kind !== 'stale') broken = failure;
    answer({ failure });
    if (failure.code === 'DATA_LOST') lose(failure);
  }
}

/** The copy is separate from the database: its failure leaves the store unchanged. */
async function snapshot(running: SqliteEngine, { file, port: asker }: Extract<StoreRequest, { ask: 'snapshot' }>): Promise<void> {
  let end: SnapshotEnd = { ended: 'done' };
  try {
    await running.snapshot(file);
  } catch (error) {
    end = { ended: 'failed', failure: toFailure(error) };
  }
  asker.postMessage(end);
  asker.close();
}

function isAcquire(question: StoreRequest): boolean {
  return !(question instanceof ArrayBuffer) && question.ask === 'acquire';
}

/** Runs after the reply, so that no request waits for it. A failure is reported with the next request. */
function committed(running: SqliteEngine): void {
  try {
    running.committed();
  } catch (error) {
    broken = toFailure(error);
  }
}

port.on('message', (question: StoreRequest) => {
  if (engine === null) return;
  const closing = !(question instanceof ArrayBuffer) && question.ask === 'close';
  if (isAcquire(question) && broken?.code === 'DISK_FULL') broken = null;
  if (broken !== null && !closing) {
    answer({ failure: broken });
    return;
  }
  ask(engine, question);
  if ((question instanceof ArrayBuffer || question.ask === 'acquire') && broken === null) committed(engine);
  if (!closing) return;
  clearTimeout(checking);
  port.close();
});

open();
