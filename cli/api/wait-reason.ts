/** Says why a job waits, while it does: each reason once, as it changes. */
import type { EndpointRow } from './endpoint-row.ts';

/** A job that starts at once needs no reason. */
const EVERY_MS = 2_000;

export interface WaitReasonOptions {
  /** Returns the endpoint's row; undefined when it is not known. */
  readonly read: () => Promise<Pick<EndpointRow, 'jobsInQueue' | 'queueReason' | 'queueDetail'> | undefined>;
  readonly tell: (reason: string) => void;
  readonly everyMs?: number;
}

/** Starts; the returned function ends it. A failed reading says nothing: the wait itself fails, or goes on. */
export function tellWaitReasons({ read, tell, everyMs = EVERY_MS }: WaitReasonOptions): () => void {
  let shown = '';
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const look = async (): Promise<void> => {
    const row = await read().catch(() => undefined);
    if (isOver) return;
    const reason = row === undefined || row.jobsInQueue === 0 ? '' : reasonOf(row);
    if (reason !== '' && reason !== shown) tell(reason);
    shown = reason;
    timer = setTimeout(() => void look(), everyMs).unref();
  };
  timer = setTimeout(() => void look(), everyMs).unref();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

function reasonOf({ queueReason, queueDetail }: Pick<EndpointRow, 'queueReason' | 'queueDetail'>): string {
  return queueReason === '' || queueDetail === '' ? queueReason : `${queueReason}: ${queueDetail}`;
}
