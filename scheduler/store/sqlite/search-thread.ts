/**
 * The thread that reads for searches, on a connection of its own that cannot write. In the write-ahead log it sees what was
 * committed before a read began, and neither waits for the other.
 */
import { parentPort, workerData } from 'node:worker_threads';

import Database from 'better-sqlite3';

import { PayloadCodec } from '../payload-codec.ts';
import { storeFailure } from './file/failures.ts';
import { BUSY_MS } from './file/owned-database.ts';
import { packResult } from './packing/results.ts';
import { toFailure, type StoreReply } from './protocol.ts';
import { prepareAll, readsOf } from './statements.ts';
import type { SearchRequest, SearchThreadData } from './search-protocol.ts';

const port = parentPort;
if (port === null) throw new Error('thread.ts must run as a worker thread');

const { file, payloadKeys } = workerData as SearchThreadData;
/** The writing connection has six times as much. */
const CACHE_KIB = 8_192;

function open(codec: PayloadCodec) {
  const db = new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_MS });
  try {
    db.pragma('query_only = ON');
    db.pragma(`cache_size = -${CACHE_KIB}`);
    db.pragma('temp_store = MEMORY');
    db.pragma('trusted_schema = OFF');
    const sql = prepareAll(db, codec);
    return { db, sql, reads: readsOf(sql, Date.now) };
  } catch (error) {
    db.close();
    throw error;
  }
}

function send(message: StoreReply): void {
  if (message instanceof ArrayBuffer) port?.postMessage(message, [message]);
  else port?.postMessage(message);
}

function failed(what: string, error: unknown): StoreReply {
  return { failure: toFailure(error instanceof RangeError ? error : storeFailure(file, what, error)) };
}

function serve(): void {
  const codec = new PayloadCodec(payloadKeys);
  let opened: ReturnType<typeof open>;
  try {
    opened = open(codec);
    send(null);
  } catch (error) {
    send(failed('cannot open for searches', error));
    port?.close();
    return;
  }
  const { db, sql, reads } = opened;

  const answer = (question: SearchRequest): StoreReply => {
    switch (question.ask) {
      case 'read': {
        const run = reads[question.query] as (...args: readonly unknown[]) => never;
        return packResult(question.query, run(...question.args));
      }
      case 'history':
        return { value: sql.history.read(question.range) };
      case 'queue-reasons':
        return { value: sql.queueReasons.read(question.range) };
      case 'device-history':
        return { value: sql.deviceHistory.read(question.range) };
      case 'payload-keys':
        codec.use(question.keys);
        return null;
      case 'close':
      default:
        db.close();
        port?.close();
        return null;
    }
  };

  port?.on('message', (question: SearchRequest) => {
    let message: StoreReply;
    try {
      message = answer(question);
    } catch (error) {
      message = failed('the search failed', error);
    }
    send(message);
  });
}

serve();
