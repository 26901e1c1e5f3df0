import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'preact/hooks';

import { useLive } from '../api/live.ts';
import { useVisible } from '../ui/visibility.ts';
import { firstLines, followLines, linesAround, toError, type LogFilter, type LogPage } from './log-follower.ts';
import type { LogLine } from './log-lines.tsx';

export interface LogQuery {
  readonly endpoint: string;
  readonly text: string;
  readonly isPattern: boolean;
  readonly level: string;
  /** Id of a worker; empty for all. */
  readonly worker: string;
  /** Id of a job; empty for all. */
  readonly job: string;
  /** `stdout`, `stderr` or `system`; empty for all. */
  readonly stream: string;
  /** How far back the lines go. */
  readonly minutes: number;
}

interface Found {
  readonly data: LogPage | undefined;
  readonly error: Error | null;
}

const MINUTE_MS = 60_000;
/** Lines that are shown: the newest ones. */
const MAX_LINES = 1_000;
const NOTHING: Found = { data: undefined, error: null };

/** Reads the lines of a query, and what is printed later while it is followed and the page is visible. */
export function useLogs(query: LogQuery, isFollowing: boolean): Found {
  const { endpoint, text, isPattern, level, worker, job, stream, minutes } = query;
  const key = JSON.stringify(query);
  const [found, setFound] = useState<Found>(NOTHING);
  /** Where the lines of a query end. */
  const end = useRef<{ readonly key: string; readonly cursor: string } | undefined>(undefined);
  const isVisible = useVisible();

  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    const filter: LogFilter = {
      ...(level === '' ? {} : { level }),
      ...(worker === '' ? {} : { worker }),
      ...(job === '' ? {} : { job }),
      ...(stream === '' ? {} : { stream }),
      ...(text === '' ? {} : { [isPattern ? 'pattern' : 'contains']: text }),
    };
    const onFailure = (error: Error): void => setFound(({ data }) => ({ data, error }));
    const onPage = (page: LogPage): void => {
      end.current = { key, cursor: page.end };
      setFound((before) => {
        const { data, error } = before;
        const isNews = page.lines.length > 0 || page.missingNodes.length !== data?.missingNodes.length || error !== null;
        return isNews && data !== undefined ? { data: joined(data, page), error: null } : before;
      });
    };
    const reading = { endpoint, filter, signal, onFailure };
    const run = async (): Promise<void> => {
      if (end.current?.key !== key) {
        end.current = undefined;
        setFound(NOTHING);
        const page = await firstLines(Date.now() - minutes * MINUTE_MS, reading);
        if (page === undefined) return;
        end.current = { key, cursor: page.end };
        setFound({ data: page, error: null });
      }
      if (isFollowing) await followLines(end.current.cursor, { ...reading, onPage });
    };
    if (isVisible)
      run().catch((error: unknown) => {
        if (!signal.aborted) onFailure(toError(error));
      });
    return () => abort.abort();
  }, [key, isFollowing, isVisible]);
  return found;
}

/** The lines of a worker around a time. */
export function useLinesAround(endpoint: string, worker: string, at: string): UseQueryResult<readonly LogLine[]> {
  return useLive(['lines-around', endpoint, worker, at], (signal) => linesAround(endpoint, worker, at, signal), false);
}

/** What a search left out at its begin stays left out. */
function joined(before: LogPage, { lines, missingNodes, unfilteredNodes }: LogPage): LogPage {
  return { ...before, lines: [...before.lines, ...lines].slice(-MAX_LINES), missingNodes, unfilteredNodes };
}
