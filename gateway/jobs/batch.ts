/** Splits the requests of one turn into messages of about 1 MiB (docs/borders.md, Batches). */
import { BATCH_BYTES } from '../../lib/batches.ts';
import { messageBytes } from '../../lib/payload.ts';
import type { JobRequest, JobRequests } from '../../proto/gen/capstan/v1/jobs.ts';

/** Bytes for ids, numbers and framing of one request. */
const OVERHEAD_BYTES = 160;

/** Returns the next message, with at least one request, and the remaining requests. */
export function nextMessage(queue: JobRequest[]): { message: JobRequests; rest: JobRequest[] } {
  let bytes = 0;
  for (let index = 0; index < queue.length; index += 1) {
    const request = queue[index];
    if (request === undefined) break;
    bytes += approximateBytes(request);
    if (bytes > BATCH_BYTES && index > 0) return { message: { requests: queue.slice(0, index) }, rest: queue.slice(index) };
  }
  return { message: { requests: queue }, rest: [] };
}

function approximateBytes(request: JobRequest): number {
  const operation = request.operation;
  if (operation?.$case !== 'submit') return OVERHEAD_BYTES;
  const { input, webhook, s3Config } = operation.value;
  return OVERHEAD_BYTES + messageBytes(input) + webhook.length + (s3Config === undefined ? 0 : 4 * 1024);
}
