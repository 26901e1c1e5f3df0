/** What the attempts of one job printed. */
import type { JSX } from 'preact';

import { READ_JOB_LOGS } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { Loaded, Section } from '../ui/parts.tsx';
import { useUrlState } from '../ui/url-state.ts';
import { NodeLink } from './fleet-names.tsx';
import { attemptsOf, Choice, LogHead, ofAttempt, STREAMS, Switch } from './log-controls.tsx';
import { LogLines, type LogLine } from './log-lines.tsx';

export function JobLogs({ endpoint, job, isLive }: { endpoint: string; job: string; isLive: boolean }): JSX.Element {
  const query = useLive(
    ['job-logs', endpoint, job],
    (signal) => graphql(READ_JOB_LOGS, { endpoint, job }, signal),
    isLive ? undefined : false,
  );
  return (
    <Section title="Log">
      <Loaded query={query}>
        {({ searchLogs: { lines, missingNodes } }) => (
          <>
            {missingNodes.map((node) => (
              <p class="muted" key={node}>
                <NodeLink id={node} /> did not reply: lines that it has of this endpoint are missing.
              </p>
            ))}
            {lines.length > 0 ? (
              <Filtered endpoint={endpoint} job={job} lines={lines} />
            ) : (
              missingNodes.length === 0 && <p class="muted">The job has printed nothing.</p>
            )}
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** The lines of one attempt or stream, or of all. */
function Filtered({ endpoint, job, lines }: { endpoint: string; job: string; lines: readonly LogLine[] }): JSX.Element {
  const [{ attempt, stream, wrap }, change] = useUrlState({ attempt: '', stream: '', wrap: '1' });
  const attempts = attemptsOf(lines);
  const ofOne = ofAttempt(lines, attempts.includes(attempt) ? attempt : '');
  const shown = STREAMS.includes(stream) ? ofOne.filter((line) => line.stream === stream) : ofOne;
  return (
    <>
      <div class="fields">
        {attempts.length > 1 && (
          <Choice id="log-attempt" label="Attempt" value={attempt} of={attempts} onChange={(value) => change({ attempt: value })} />
        )}
        <Choice id="log-stream" label="Stream" value={stream} of={STREAMS} onChange={(value) => change({ stream: value })} />
        <Switch label="Wrap" isOn={wrap === '1'} onChange={(isOn) => change({ wrap: isOn ? '1' : '0' })} />
      </div>
      <LogHead name={job} lines={shown} />
      {shown.length === 0 ? (
        <p class="muted">No lines.</p>
      ) : (
        <LogLines key={`${attempt} ${stream}`} endpoint={endpoint} lines={shown} isWrapped={wrap === '1'} />
      )}
    </>
  );
}
