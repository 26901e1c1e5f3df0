/** Answers the scheduler's requests for log lines. */
import type { Logger } from 'pino';

import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { LogPosition as WirePosition } from '../../proto/gen/capstan/v1/common.ts';
import type { LogsReply, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';
import type { LogPosition } from './filter.ts';
import type { LogStore } from './log-store.ts';

const MAX_LINES = 1_000;
const DEFAULT_LINES = 200;

/** Never rejects: a failure is logged, and the reply says that the search failed. */
export async function answerLogs(logs: LogStore, request: LogsRequest, log: Pick<Logger, 'warn'>): Promise<LogsReply> {
  const { requestId, endpointId, workerId, limit, afterMs, filter } = request;
  const { jobId = '', releaseId = '', stream = '', level = '', contains = '', pattern = '', oldestFirst = false } = filter ?? {};
  const after = positionOf(filter?.after) ?? (afterMs > 0n ? { us: Number(afterMs) * 1_000 + 999, workerId: LAST_WORKER } : undefined);
  const before = positionOf(filter?.before);
  // Lines of the same millisecond may still come.
  const searchedUs = BigInt(Date.now()) * 1_000n - 1n;
  try {
    const wanted = { workerId, releaseId, jobId, stream, level, contains, pattern, after, before };
    const found = await logs.search(endpointId, wanted, { limit: Math.min(limit || DEFAULT_LINES, MAX_LINES), oldestFirst });
    return {
      requestId,
      lines: found.lines,
      stoppedAtUs: BigInt(found.stoppedAtUs ?? 0),
      error: '',
      failed: false,
      knowsWait: true,
      searchedUs,
    };
  } catch (error) {
    const isRefusal = error instanceof CapstanError && error.code === 'INVALID_ARGUMENT';
    // A refusal (too many searches at once) is the caller's to know, not the operator's.
    if (!(error instanceof CapstanError)) log.warn({ error: messageOf(error) }, 'searching worker logs failed');
    return { requestId, lines: [], stoppedAtUs: 0n, error: isRefusal ? error.message : '', failed: !isRefusal, knowsWait: true };
  }
}

/** After every worker id. */
const LAST_WORKER = '\u{10FFFF}';

function positionOf(position: WirePosition | undefined): LogPosition | undefined {
  return position === undefined ? undefined : { us: Number(position.atUs), workerId: position.workerId };
}
