/**
 * Cost of a batch for the main thread on its way to the store thread: cloned objects against a packed buffer. Prints
 * one JSON line per kind of batch, µs of main-thread time per operation.
 *
 * node bench/store/packing.ts [--rounds 400]
 */
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';

import { packBatch } from '../../scheduler/store/sqlite/packing/batches.ts';
import type { Op } from '../../scheduler/core/ports/store.ts';
import { finishOp, leaseOp, median, requeueOp, submitOp } from './load.ts';

const BATCH_SIZE = 64;
const { values } = parseArgs({ options: { rounds: { type: 'string', default: '400' } } });
const rounds = Number(values.rounds);
const fence = { cell: 0, term: 1n };
const now = Date.now();

/** Drops what it receives and confirms it, so that no round begins before the messages of the previous one are gone. */
const sink = new Worker(
  `const { parentPort } = require('node:worker_threads'); parentPort.on('message', () => parentPort.postMessage(0));`,
  {
    eval: true,
  },
);

async function measure(post: () => void): Promise<number> {
  const costs: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const start = performance.now();
    post();
    costs.push(performance.now() - start);
    await once(sink, 'message');
  }
  return Math.round((median(costs.slice(rounds / 4)) / BATCH_SIZE) * 1e6) / 1e3;
}

const kinds: Readonly<Record<string, (seq: number) => Op>> = {
  submit: (seq) => submitOp(seq, now),
  lease: leaseOp,
  finish: (seq) => finishOp(seq, now),
  requeue: requeueOp,
};

let hint = 1_024;
for (const [kind, make] of Object.entries(kinds)) {
  const ops = Array.from({ length: BATCH_SIZE }, (_, i) => make(i + 1));
  const cloned = await measure(() => sink.postMessage({ fence, ops }));
  const packed = await measure(() => {
    const { buffer, size } = packBatch(fence, ops, hint);
    hint = size + (size >> 2);
    sink.postMessage(buffer, [buffer]);
  });
  console.log(
    JSON.stringify({
      bench: 'store-packing',
      kind,
      batch: BATCH_SIZE,
      cloned_us_per_op: cloned,
      packed_us_per_op: packed,
      ratio: cloned / packed,
    }),
  );
}
await sink.terminate();
