import type { Database } from 'better-sqlite3';

import type { Payload } from '../../../../lib/payload.ts';
import type { PayloadCodec } from '../../payload-codec.ts';
import type { StoredPayload } from '../../../core/ports/stored-payload.ts';
import type { BodyUsage, EncryptedInput, SearchedInput } from '../../../core/ports/store.ts';
import { bound, fromWholePayloadColumns, payloadColumns, type PayloadTuple } from '../../rows.ts';
import { inlineLength, type InlineUsage } from './inline-usage.ts';

const PAYLOAD = 'SELECT inline, blob, size, s3 FROM inputs WHERE seq = ?';
const INPUTS = 'SELECT seq, inline, blob, size FROM inputs WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq';
const INSERT_CHUNK = 'INSERT INTO chunks (seq, idx, inline, blob, size) VALUES (?, ?, ?, ?, ?)';
const READ_CHUNKS = 'SELECT inline, blob, size, idx FROM chunks WHERE seq = ? ORDER BY idx';
const DROP_CHUNKS = 'DELETE FROM chunks WHERE seq = ? RETURNING blob, ifnull(length(inline), 0)';
const DROP_INPUT = 'DELETE FROM inputs WHERE seq = ? RETURNING blob, ifnull(length(inline), 0)';

const ENCRYPTED_INPUTS = `
SELECT seq, (SELECT id FROM jobs WHERE jobs.seq = inputs.seq) AS id, s3
FROM inputs INDEXED BY inputs_s3 WHERE s3 IS NOT NULL AND seq > ? ORDER BY seq LIMIT ?`;
const RESEAL_INPUT = 'UPDATE inputs SET s3 = ? WHERE seq = ? AND s3 = ?';
const HAS_INPUT = 'SELECT 1 FROM inputs WHERE seq = ?';

/** Chunks are dropped only from the front. */
const DRAIN_CHUNKS = 'DELETE FROM chunks WHERE seq = ? AND idx < ? RETURNING blob, ifnull(length(inline), 0)';
const ENDED = 'SELECT ended_at IS NOT NULL, endpoint FROM jobs WHERE seq = ?';
const COUNT_DRAINED = 'UPDATE jobs SET chunks = chunks - ? WHERE seq = ?';

const BLOBS_OF = `
SELECT blob FROM inputs WHERE seq = @seq AND blob IS NOT NULL
UNION ALL SELECT output_blob FROM jobs WHERE seq = @seq AND output_blob IS NOT NULL
UNION ALL SELECT blob FROM chunks WHERE seq = @seq AND blob IS NOT NULL`;

const BLOBS_NAMED = `
SELECT value FROM json_each(?) WHERE
  EXISTS (SELECT 1 FROM inputs INDEXED BY inputs_blob WHERE blob = value)
  OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_output_blob WHERE output_blob = value)
  OR EXISTS (SELECT 1 FROM chunks INDEXED BY chunks_blob WHERE blob = value)
  OR EXISTS (SELECT 1 FROM hooks INDEXED BY hooks_input_blob WHERE input_blob = value)
  OR EXISTS (SELECT 1 FROM hooks INDEXED BY hooks_output_blob WHERE output_blob = value)`;

const BODY_USAGE = `
SELECT account, sum(bytes) AS bytes FROM (
  SELECT account, bytes FROM body_usage UNION ALL SELECT account, bytes FROM inline_usage WHERE bytes > 0
) GROUP BY account ORDER BY account`;

/** What a row held that is gone: the blob that it named, and the bytes that it held itself. */
type Dropped = [blob: string | null, inline: number];

/** Inputs, chunks, and the blobs that rows name. */
export function bodyStatements(db: Database, codec: PayloadCodec, counted: InlineUsage) {
  const payloadRow = db.prepare<[number], [...PayloadTuple, Uint8Array | null]>(PAYLOAD).raw();
  const inputRows = db.prepare<[string], [seq: number, ...PayloadTuple]>(INPUTS).raw();
  const encryptedRows = db.prepare<[number, number], EncryptedInput>(ENCRYPTED_INPUTS);
  const reencryptRow = db.prepare<[Uint8Array, number, Uint8Array]>(RESEAL_INPUT);
  const hasInputRow = db.prepare<[number], 1>(HAS_INPUT).pluck();
  const chunkIn = db.prepare(INSERT_CHUNK);
  const chunkRows = db.prepare<[number], [...PayloadTuple, idx: number]>(READ_CHUNKS).raw();
  const chunksOut = db.prepare<[number], Dropped>(DROP_CHUNKS).raw();
  const inputOut = db.prepare<[number], Dropped>(DROP_INPUT).raw();
  const drainRows = db.prepare<[number, number], Dropped>(DRAIN_CHUNKS).raw();
  const endedRow = db.prepare<[number], [isEnded: 0 | 1, endpoint: string]>(ENDED).raw();
  const drained = db.prepare<[number, number]>(COUNT_DRAINED);
  const ofJob = db.prepare<[{ seq: number }], string>(BLOBS_OF).pluck();
  const named = db.prepare<[string], string>(BLOBS_NAMED).pluck();
  const usage = db.prepare<[], BodyUsage>(BODY_USAGE);
  /** Counts rows of the endpoint that are gone; returns the blobs that they named. */
  const dropped = (endpoint: string, rows: readonly Dropped[]): (string | null)[] =>
    rows.map(([blob, inline]) => {
      counted.add(endpoint, -inline);
      return blob;
    });
  return {
    payload(seq: number): { input: StoredPayload; s3: Uint8Array | null } | null {
      const row = payloadRow.get(seq);
      return row === undefined ? null : { input: fromWholePayloadColumns([row[0], row[1], row[2]], codec), s3: row[3] };
    },
    inputs(seqs: readonly number[]): SearchedInput[] {
      return inputRows
        .all(JSON.stringify(seqs))
        .map(([seq, inline, blob, size]) => ({ seq, input: fromWholePayloadColumns([inline, blob, size], codec) }));
    },
    encryptedInputs(afterSeq: number, limit: number): EncryptedInput[] {
      return encryptedRows.all(afterSeq, bound(limit));
    },
    reseal(seq: number, from: Uint8Array, to: Uint8Array): 'ok' | 'stale' | 'gone' {
      if (reencryptRow.run(to, seq, from).changes === 1) return 'ok';
      return hasInputRow.get(seq) === undefined ? 'gone' : 'stale';
    },
    addChunks(endpoint: string, seq: number, first: number, chunks: readonly Payload[]): void {
      for (const [i, chunk] of chunks.entries()) {
        const columns = payloadColumns(chunk, codec);
        chunkIn.run(seq, first + i, ...columns);
        counted.add(endpoint, inlineLength(columns));
      }
    },
    chunks(seq: number): { chunks: StoredPayload[]; firstChunk: number } {
      const rows = chunkRows.all(seq);
      return {
        chunks: rows.map(([inline, blob, size]) => fromWholePayloadColumns([inline, blob, size], codec)),
        firstChunk: rows[0]?.[3] ?? 0,
      };
    },
    /** Deletes the input of an endpoint's job; returns the blob that it named. */
    dropInput(endpoint: string, seq: number): string | null {
      const [blob = null, inline = 0] = inputOut.get(seq) ?? [];
      counted.add(endpoint, -inline);
      return blob;
    },
    /** Deletes the chunks of an endpoint's job; returns the blobs that they named. */
    dropChunks(endpoint: string, seq: number): (string | null)[] {
      return dropped(endpoint, chunksOut.all(seq));
    },
    /** Deletes the chunks of an ended job below an index; returns the blobs that they named. */
    drain(seq: number, below: number): (string | null)[] | 'stale' | 'gone' {
      const [isEnded, endpoint] = endedRow.get(seq) ?? [];
      if (isEnded === undefined || endpoint === undefined) return 'gone';
      if (isEnded === 0) return 'stale';
      const blobs = dropped(endpoint, drainRows.all(seq, below));
      if (blobs.length > 0) drained.run(blobs.length, seq);
      return blobs;
    },
    blobsOf(seq: number): string[] {
      return ofJob.all({ seq });
    },
    bodyUsage(): BodyUsage[] {
      return usage.all();
    },
    blobsNamed(ids: readonly string[]): string[] {
      return named.all(JSON.stringify(ids));
    },
  };
}
