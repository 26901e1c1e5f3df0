import type { PayloadCodec } from '../../payload-codec.ts';
import type { Reads } from '../../../core/ports/store.ts';
import { bound, fromWholePayloadColumns, type PayloadTuple } from '../../rows.ts';
import type { AsyncReads, Query } from './query.ts';

const PAYLOAD = 'SELECT inline, blob, size, s3 FROM capstan.inputs WHERE cell = $1 AND seq = $2';
const INPUTS = 'SELECT seq, inline, blob, size FROM capstan.inputs WHERE cell = $1 AND seq = ANY ($2::bigint[]) ORDER BY seq';
const ENCRYPTED_INPUTS = `SELECT i.seq, (SELECT j.id FROM capstan.jobs j WHERE j.cell = $1 AND j.seq = i.seq), i.s3
FROM capstan.inputs i WHERE i.cell = $1 AND i.s3 IS NOT NULL AND i.seq > $2 ORDER BY i.seq LIMIT $3`;
const BLOBS_OF = `SELECT blob FROM capstan.inputs WHERE cell = $1 AND seq = $2 AND blob IS NOT NULL
UNION ALL SELECT output_blob FROM capstan.jobs WHERE cell = $1 AND seq = $2 AND output_blob IS NOT NULL
UNION ALL SELECT blob FROM capstan.chunks WHERE cell = $1 AND seq = $2 AND blob IS NOT NULL`;
/** Of any cell: all of them may share one blob store. A build is named by its control row. */
const BLOBS_NAMED = `SELECT u.id FROM unnest($1::text[]) u (id) WHERE
  EXISTS (SELECT FROM capstan.control WHERE u.id LIKE 'build/%' AND kind = 'build' AND key = substr(u.id, 7))
  OR EXISTS (SELECT FROM capstan.inputs WHERE blob = u.id) OR EXISTS (SELECT FROM capstan.jobs WHERE output_blob = u.id)
  OR EXISTS (SELECT FROM capstan.chunks WHERE blob = u.id)
  OR EXISTS (SELECT FROM capstan.hooks WHERE input_blob = u.id) OR EXISTS (SELECT FROM capstan.hooks WHERE output_blob = u.id)`;
const BODY_USAGE = `SELECT account, sum(bytes)::bigint FROM (
  SELECT account, bytes FROM capstan.body_usage WHERE cell = $1
  UNION ALL SELECT account, bytes FROM capstan.inline_usage WHERE cell = $1 AND bytes > 0
) u GROUP BY account ORDER BY account`;

type BodyReads = Pick<AsyncReads<Reads>, 'payload' | 'inputs' | 'encryptedInputs' | 'blobsOf' | 'blobsNamed' | 'bodyUsage'>;

export function bodyReads(query: Query, cell: number, codec: PayloadCodec): BodyReads {
  return {
    async payload(seq) {
      const [row] = await query<[...PayloadTuple, s3: Uint8Array | null]>('payload', PAYLOAD, [cell, seq]);
      return row === undefined ? null : { input: fromWholePayloadColumns([row[0], row[1], row[2]], codec), s3: row[3] };
    },
    async inputs(seqs) {
      const rows = await query<[seq: number, ...PayloadTuple]>('inputs', INPUTS, [cell, seqs]);
      return rows.map(([seq, ...columns]) => ({ seq, input: fromWholePayloadColumns(columns, codec) }));
    },
    async encryptedInputs(afterSeq, limit) {
      const rows = await query<[number, string, Uint8Array]>('encrypted-inputs', ENCRYPTED_INPUTS, [cell, afterSeq, bound(limit)]);
      return rows.map(([seq, id, s3]) => ({ seq, id, s3 }));
    },
    async blobsOf(seq) {
      return (await query<[string]>('blobs-of', BLOBS_OF, [cell, seq])).map(([blob]) => blob);
    },
    async blobsNamed(ids) {
      return (await query<[string]>('blobs-named', BLOBS_NAMED, [ids])).map(([id]) => id);
    },
    async bodyUsage() {
      return (await query<[string, number]>('body-usage', BODY_USAGE, [cell])).map(([account, bytes]) => ({ account, bytes }));
    },
  };
}
