/** The prepared statements of a connection, and the reads that they answer. */
import type { Database } from 'better-sqlite3';

import type { PayloadCodec } from '../payload-codec.ts';
import type { Reads } from '../../core/ports/store.ts';
import { bodyStatements } from './sql/bodies.ts';
import { controlStatements } from './sql/control.ts';
import { deviceHistoryStatements } from './sql/device-history.ts';
import { historyStatements } from './sql/history.ts';
import { deliveryStatements } from './sql/deliveries.ts';
import { idempotencyStatements } from './sql/idempotency.ts';
import { inlineUsageStatements } from './sql/inline-usage.ts';
import { pageStatements } from './sql/pages.ts';
import { queueReasonStatements } from './sql/queue-reasons.ts';
import { queueStatements } from './sql/queue.ts';
import { removalStatements } from './sql/removal.ts';
import { termStatements } from './sql/terms.ts';
import { submitStatements } from './sql/submit.ts';
import { transitionStatements } from './sql/transitions.ts';

/** All statements of a connection. */
export function prepareAll(db: Database, codec: PayloadCodec) {
  const inlineUsage = inlineUsageStatements(db);
  const bodies = bodyStatements(db, codec, inlineUsage);
  return {
    // IMMEDIATE: a batch writes, so it takes the write lock before it reads the term.
    begin: db.prepare('BEGIN IMMEDIATE'),
    commit: db.prepare('COMMIT'),
    rollback: db.prepare('ROLLBACK'),
    /** Returns the length of the WAL and of its copied part; copies nothing. */
    walState: db.prepare<[], { log: number; checkpointed: number }>('PRAGMA wal_checkpoint(NOOP)'),
    bodies,
    control: controlStatements(db),
    deviceHistory: deviceHistoryStatements(db),
    history: historyStatements(db),
    deliveries: deliveryStatements(db, codec, inlineUsage),
    idempotency: idempotencyStatements(db),
    inlineUsage,
    pages: pageStatements(db, bodies, codec),
    queue: queueStatements(db, codec),
    queueReasons: queueReasonStatements(db),
    removal: removalStatements(db),
    terms: termStatements(db),
    submit: submitStatements(db, codec, inlineUsage),
    transitions: transitionStatements(db, codec, inlineUsage),
  };
}

export function readsOf(sql: ReturnType<typeof prepareAll>, now: () => number): Reads {
  return {
    job: sql.pages.job,
    endpointOfJob: sql.pages.endpointOfJob,
    payload: sql.bodies.payload,
    inputs: sql.bodies.inputs,
    encryptedInputs: sql.bodies.encryptedInputs,
    head: sql.queue.head,
    leased: sql.queue.leased,
    due: sql.removal.due,
    blobsOf: sql.bodies.blobsOf,
    blobsNamed: sql.bodies.blobsNamed,
    bodyUsage: sql.bodies.bodyUsage,
    counts: sql.queue.counts,
    highest: sql.removal.highest,
    page: sql.pages.page,
    newest: sql.pages.newest,
    control: sql.control.list,
    audit: sql.control.audit,
    auditAfter: sql.control.auditAfter,
    deliveries: sql.deliveries.due,
    delivery: sql.deliveries.one,
    deliveryPage: sql.deliveries.page,
    newestDeliveries: sql.deliveries.newest,
    idempotency: (key) => sql.idempotency.find(key, now()),
  };
}
