/** The log thread: tasks of Piscina. Errors of the caller come back as results, since an error's code does not survive the way. */
import { CapstanError } from '../../lib/errors.ts';
import { indexSegment, sealSegment, searchSegments, type SearchResult, type SearchTask } from './search.ts';
import type { SegmentIndex } from './segment-index.ts';

interface SegmentTask {
  readonly path: string;
  readonly endpointId: string;
}

export function seal({ path, endpointId }: SegmentTask): ReturnType<typeof sealSegment> {
  return sealSegment(path, endpointId);
}

export function index({ path, endpointId }: SegmentTask): SegmentIndex {
  return indexSegment(path, endpointId);
}

export type SearchReply =
  | { readonly kind: 'found'; readonly result: SearchResult }
  | { readonly kind: 'refused'; readonly message: string };

export function search(task: SearchTask): SearchReply {
  try {
    return { kind: 'found', result: searchSegments(task) };
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'INVALID_ARGUMENT') return { kind: 'refused', message: error.message };
    throw error;
  }
}
