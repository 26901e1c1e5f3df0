import type { LogLine } from '../api/graphql/gen/operations.ts';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';

import { clock, time } from '../ui/format.ts';
import { Text } from '../ui/parts.tsx';

export type { LogLine };

const BAD_LEVELS = new Set(['error', 'fatal']);
/** Distance from the end at which a reader is still at the end, px. */
const NEAR_PX = 16;

interface LogLinesProps {
  readonly endpoint: string;
  readonly lines: readonly LogLine[];
  /** Lines lead to their jobs; not on the page of the job itself. */
  readonly hasJobs?: boolean;
  readonly isWrapped?: boolean;
  /** Shows the lines around one; lines have no such button without it. */
  readonly onAround?: (line: LogLine) => void;
  /** Time of the line that is marked. */
  readonly marked?: string | undefined;
}

/** Lines in a box that scrolls: at its end it stays at the end, elsewhere it says how many lines have come. */
export function LogLines({ endpoint, lines, hasJobs = false, isWrapped = true, onAround, marked }: LogLinesProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  /** The last line that a reader saw who has left the end. */
  const lastSeen = useRef(lines.at(-1));
  const [unseen, setUnseen] = useState(0);
  const hasAttempts = new Set(lines.map(({ attempt }) => attempt)).size > 1;

  const toEnd = (): void => {
    if (box.current === null) return;
    box.current.scrollTop = box.current.scrollHeight;
    lastSeen.current = lines.at(-1);
    setUnseen(0);
  };
  useLayoutEffect(() => {
    if (marked !== undefined) box.current?.querySelector('.marked')?.scrollIntoView({ block: 'center' });
    else if (isAtEnd.current) toEnd();
    else setUnseen(lastSeen.current === undefined ? lines.length : lines.length - 1 - lines.lastIndexOf(lastSeen.current));
  }, [lines, marked]);
  const scrolled = (): void => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (!isAtEnd.current) return;
    lastSeen.current = lines.at(-1);
    setUnseen(0);
  };
  return (
    <div class="log-box">
      <div class={isWrapped ? 'log' : 'log unwrapped'} role="log" aria-label="Log lines" tabIndex={0} ref={box} onScroll={scrolled}>
        {lines.map((line, index) => {
          const { at, worker, stream, level, text, job, attempt } = line;
          const tone = level !== null && BAD_LEVELS.has(level) ? 'bad' : stream;
          return (
            <div key={`${at}-${worker}-${index}`} class={at === marked ? `${tone} marked` : tone}>
              {onAround === undefined ? (
                <time dateTime={at} title={time(at)}>
                  {clock(at)}
                </time>
              ) : (
                <button type="button" class="plain-button" title={`${time(at)}: show the lines around it`} onClick={() => onAround(line)}>
                  {clock(at)}
                </button>
              )}{' '}
              <Link
                href={`/endpoints/${encodeURIComponent(endpoint)}/logs?worker=${encodeURIComponent(worker)}`}
                title={`worker ${worker}`}
              >
                {worker.slice(0, 6)}
              </Link>{' '}
              {hasJobs && job !== null && (
                <Link href={`/endpoints/${encodeURIComponent(endpoint)}/jobs/${encodeURIComponent(job)}`} title={`job ${job}`}>
                  job …{endOf(job)}
                </Link>
              )}{' '}
              {hasAttempts && attempt !== null && <span class="muted">attempt {attempt} </span>}
              {level !== null && <b>{level} </b>}
              <Text of={text} />
            </div>
          );
        })}
      </div>
      {unseen > 0 && (
        <button type="button" class="primary to-end" onClick={toEnd}>
          {unseen} new {unseen === 1 ? 'line' : 'lines'} ↓
        </button>
      )}
    </div>
  );
}

/** The last characters of a job's id that tell it apart: ids begin with their time, and some end with the kind of the request. */
function endOf(job: string): string {
  return job.replace(/-[a-z]\w$/, '').slice(-4);
}

/** Lines as a file has them: times in UTC. */
export function linesAsText(lines: readonly LogLine[]): string {
  return lines.map(({ at, worker, stream, text }) => `${at} ${worker} ${stream} ${text}\n`).join('');
}
