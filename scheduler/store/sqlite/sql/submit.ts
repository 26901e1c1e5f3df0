import type { Database } from 'better-sqlite3';

import type { Payload } from '../../../../lib/payload.ts';
import { submittedColumns } from '../../../core/ports/columns.ts';
import type { PayloadCodec } from '../../payload-codec.ts';
import type { JobRow } from '../../../core/ports/store.ts';
import { payloadColumns, submissionOf } from '../../rows.ts';
import { inlineLength, type InlineUsage } from './inline-usage.ts';

const columns = [...submittedColumns.map(({ name }) => name), 'has_s3'];
const insertJob = `
INSERT INTO jobs (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
ON CONFLICT (id) DO NOTHING`;

const INSERT_INPUT = 'INSERT INTO inputs (seq, inline, blob, size, s3) VALUES (?, ?, ?, ?, ?)';

/** Inserts a job, queued or leased, with its input. */
export function submitStatements(db: Database, codec: PayloadCodec, usage: InlineUsage) {
  const job = db.prepare(insertJob);
  const input = db.prepare(INSERT_INPUT);
  return {
    /** Returns false if the id is taken. */
    insert(row: JobRow, payload: Payload, s3: Uint8Array | null): boolean {
      const { changes } = job.run(...submissionOf(row), s3 === null ? 0 : 1);
      if (changes === 0) return false;
      const body = payloadColumns(payload, codec);
      input.run(row.seq, ...body, s3);
      usage.add(row.endpoint, inlineLength(body));
      return true;
    },
  };
}
