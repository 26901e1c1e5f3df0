import type { Database } from 'better-sqlite3';

import type { Body, BodyUsage, EncryptedInput } from '../../store.ts';
import { blobOf, bound, inlineOf, sizeOf, toWholeBody, type BodyTuple } from '../rows.ts';

const payload = 'SELECT inline, blob, size, s3 FROM inputs WHERE no = ?';
const insertChunk = 'INSERT INTO chunks (no, idx, inline, blob, size) VALUES (?, ?, ?, ?, ?)';
const readChunks = 'SELECT inline, blob, size, idx FROM chunks WHERE no = ? ORDER BY idx';
const dropChunks = 'DELETE FROM chunks WHERE no = ? RETURNING blob';
const dropInput = 'DELETE FROM inputs WHERE no = ? RETURNING blob';

const encryptedInputs = `
SELECT no, (SELECT id FROM jobs WHERE jobs.no = inputs.no) AS id, s3
FROM inputs INDEXED BY inputs_s3 WHERE s3 IS NOT NULL AND no > ? ORDER BY no LIMIT ?`;
const resealInput = 'UPDATE inputs SET s3 = ? WHERE no = ? AND s3 = ?';
const hasInput = 'SELECT 1 FROM inputs WHERE no = ?';

/** Chunks are dropped from the front only. */
const drainChunks = 'DELETE FROM chunks WHERE no = ? AND idx < ? RETURNING blob';
const ended = 'SELECT ended_at IS NOT NULL FROM jobs WHERE no = ?';
const countDrained = 'UPDATE jobs SET chunks = chunks - ? WHERE no = ?';

const blobsOf = `
SELECT blob FROM inputs WHERE no = @no AND blob IS NOT NULL
UNION ALL SELECT output_blob FROM jobs WHERE no = @no AND output_blob IS NOT NULL
UNION ALL SELECT blob FROM chunks WHERE no = @no AND blob IS NOT NULL`;

const blobsNamed = `
SELECT value FROM json_each(?) WHERE
  EXISTS (SELECT 1 FROM inputs INDEXED BY inputs_blob WHERE blob = value)
  OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_output_blob WHERE output_blob = value)
  OR EXISTS (SELECT 1 FROM chunks INDEXED BY chunks_blob WHERE blob = value)
  OR EXISTS (SELECT 1 FROM hooks INDEXED BY hooks_input_blob WHERE input_blob = value)
  OR EXISTS (SELECT 1 FROM hooks INDEXED BY hooks_output_blob WHERE output_blob = value)`;

const bodyUsage = 'SELECT account, bytes FROM body_usage';

/** Inputs, chunks, and which blobs rows name. */
export function bodyStatements(db: Database) {
  const payloadRow = db.prepare<[number], [...BodyTuple, Uint8Array | null]>(payload).raw();
  const sealedRows = db.prepare<[number, number], EncryptedInput>(encryptedInputs);
  const resealRow = db.prepare<[Uint8Array, number, Uint8Array]>(resealInput);
  const hasInputRow = db.prepare<[number], 1>(hasInput).pluck();
  const chunkIn = db.prepare(insertChunk);
  const chunkRows = db.prepare<[number], [...BodyTuple, idx: number]>(readChunks).raw();
  const chunksOut = db.prepare<[number], string | null>(dropChunks).pluck();
  const inputOut = db.prepare<[number], string | null>(dropInput).pluck();
  const drainRows = db.prepare<[number, number], string | null>(drainChunks).pluck();
  const endedRow = db.prepare<[number], 0 | 1>(ended).pluck();
  const drained = db.prepare<[number, number]>(countDrained);
  const ofJob = db.prepare<[{ no: number }], string>(blobsOf).pluck();
  const named = db.prepare<[string], string>(blobsNamed).pluck();
  const usage = db.prepare<[], BodyUsage>(bodyUsage);
  return {
    payload(no: number): { input: Body; s3: Uint8Array | null } | null {
      const row = payloadRow.get(no);
      return row === undefined ? null : { input: toWholeBody([row[0], row[1], row[2]]), s3: row[3] };
    },
    encryptedInputs(afterNo: number, limit: number): EncryptedInput[] {
      return sealedRows.all(afterNo, bound(limit));
    },
    reseal(no: number, from: Uint8Array, to: Uint8Array): 'ok' | 'stale' | 'gone' {
      if (resealRow.run(to, no, from).changes === 1) return 'ok';
      return hasInputRow.get(no) === undefined ? 'gone' : 'stale';
    },
    addChunks(no: number, first: number, bodies: readonly Body[]): void {
      bodies.forEach((body, i) => chunkIn.run(no, first + i, inlineOf(body), blobOf(body), sizeOf(body)));
    },
    chunks(no: number): { chunks: Body[]; firstChunk: number } {
      const rows = chunkRows.all(no);
      return { chunks: rows.map(([inline, blob, size]) => toWholeBody([inline, blob, size])), firstChunk: rows[0]?.[3] ?? 0 };
    },
    /** Deletes a job's input; returns the blob that it named. */
    dropInput(no: number): string | null {
      return inputOut.get(no) ?? null;
    },
    /** Deletes a job's chunks; returns the blobs that they named. */
    dropChunks(no: number): (string | null)[] {
      return chunksOut.all(no);
    },
    /** Deletes the chunks of an ended job that lie below an index; returns the blobs that they named. */
    drain(no: number, below: number): (string | null)[] | 'stale' | 'gone' {
      const isEnded = endedRow.get(no);
      if (isEnded === undefined) return 'gone';
      if (isEnded === 0) return 'stale';
      const blobs = drainRows.all(no, below);
      if (blobs.length > 0) drained.run(blobs.length, no);
      return blobs;
    },
    blobsOf(no: number): string[] {
      return ofJob.all({ no });
    },
    bodyUsage(): BodyUsage[] {
      return usage.all();
    },
    blobsNamed(ids: readonly string[]): string[] {
      return named.all(JSON.stringify(ids));
    },
  };
}
