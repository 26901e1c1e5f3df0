/** The log thread: tasks of Piscina. Errors of the caller come back as results, since an error's code does not survive the way. */
import { CapstanError } from '../../lib/errors.ts';
import { sealSegment, type SealedSize } from './seal.ts';
import { indexSegment, searchInSlices, type SearchResult, type SearchTask } from './search.ts';
import type { SegmentIndex } from './segment-index.ts';

interface SegmentTask {
  readonly path: string;
  readonly endpointId: string;
}

export function seal({ path, endpointId }: SegmentTask): Promise<SealedSize | undefined> {
  return sealSegment(path, endpointId);
}

export function index({ path, endpointId }: SegmentTask): SegmentIndex {
  return indexSegment(path, endpointId);
}

export type SearchReply =
  | { readonly kind: 'found'; readonly result: SearchResult }
  | { readonly kind: 'refused'; readonly message: string }
  /** Its slice of time is over: it waits to be resumed. */
  | { readonly kind: 'paused' };

/** Time for which a search has the thread, ms. */
const SLICE_MS = 25;
const paused = new Map<number, ReturnType<typeof searchInSlices>>();

/** Begins a search, or resumes the one that was paused under the number. */
export function search({ number, task }: { readonly number: number; readonly task: SearchTask | undefined }): SearchReply {
  const steps = task === undefined ? paused.get(number) : searchInSlices(task, SLICE_MS);
  paused.delete(number);
  if (steps === undefined) throw new Error('the log thread has ended since the search began');
  try {
    const step = steps.next();
    if (step.done === true) return { kind: 'found', result: step.value };
    paused.set(number, steps);
    return { kind: 'paused' };
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'INVALID_ARGUMENT') return { kind: 'refused', message: error.message };
    throw error;
  }
}
