/**
 * The store thread: runs the engine, so that neither a commit nor a checkpoint ever holds up the
 * main thread. Questions are answered in the order they came in.
 *
 * After a batch that the database could not write, everything after it is refused: later batches
 * were made on the assumption that it had been written. Where the disk was full the database has taken
 * all of the batch back, so whoever takes the shard anew may go on; any other failure lasts.
 */
import { parentPort, workerData } from 'node:worker_threads';

import { SqliteEngine } from './engine.ts';
import { packOutcomes, unpackBatch } from './packing/batches.ts';
import { packResult } from './packing/results.ts';
import { toFailure, type Answer, type Failure, type Question, type SnapshotEnd, type ThreadData } from './protocol.ts';

const port = parentPort;
if (port === null) throw new Error('thread.ts must run as a worker thread');

const data = workerData as ThreadData;
let engine: SqliteEngine | null = null;
let broken: Failure | null = null;

function answer(message: Answer): void {
  if (message instanceof ArrayBuffer) port?.postMessage(message, [message]);
  else port?.postMessage(message);
}

function open(): void {
  try {
    engine = new SqliteEngine({
      file: data.file,
      mustExist: data.mustExist,
      ...(data.checkpointPages === null ? {} : { checkpointPages: data.checkpointPages }),
    });
    answer(null);
  } catch (error) {
    answer({ failure: toFailure(error) });
    port?.close();
  }
}

/** A read that fails refuses that read alone; a write that fails for more than a stale term ends the store. */
function ask(running: SqliteEngine, question: Question): void {
  try {
    if (question instanceof ArrayBuffer) {
      const { fence, ops } = unpackBatch(question);
      answer(packOutcomes(running.commit(fence, ops)));
    } else if (question.ask === 'read') {
      answer(packResult(question.query, running.read(question.query, ...(question.args as never))));
    } else if (question.ask === 'acquire') {
      answer({ value: running.acquire(question.shard, question.owner, question.forMs) });
    } else if (question.ask === 'snapshot') {
      void snapshot(running, question);
      answer(null);
    } else {
      running.close();
      answer(null);
    }
  } catch (error) {
    const failure = toFailure(error);
    const isRead = !(question instanceof ArrayBuffer) && question.ask === 'read';
    if (!isRead && failure.kind !== 'stale') broken = failure;
    answer({ failure });
  }
}

/** The copy is beside the database: its failure leaves the store as it is. */
async function snapshot(running: SqliteEngine, { file, port: asker }: Extract<Question, { ask: 'snapshot' }>): Promise<void> {
  let end: SnapshotEnd = { ended: 'done' };
  try {
    await running.snapshot(file);
  } catch (error) {
    end = { ended: 'failed', failure: toFailure(error) };
  }
  asker.postMessage(end);
  asker.close();
}

function isAcquire(question: Question): boolean {
  return !(question instanceof ArrayBuffer) && question.ask === 'acquire';
}

/** After the answer, so that nobody waits for it; a failure shows with the next question. */
function checkpointIfDue(running: SqliteEngine): void {
  try {
    running.checkpointIfDue();
  } catch (error) {
    broken = toFailure(error);
  }
}

port.on('message', (question: Question) => {
  if (engine === null) return;
  const closing = !(question instanceof ArrayBuffer) && question.ask === 'close';
  if (isAcquire(question) && broken?.code === 'DISK_FULL') broken = null;
  if (broken !== null && !closing) {
    answer({ failure: broken });
    return;
  }
  ask(engine, question);
  if (question instanceof ArrayBuffer && broken === null) checkpointIfDue(engine);
  if (closing) port.close();
});

open();
