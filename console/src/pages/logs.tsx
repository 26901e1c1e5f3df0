import type { JSX } from 'preact';

import { clock } from '../ui/format.ts';
import { Loaded, Text } from '../ui/parts.tsx';
import { useUrlState } from '../ui/url-state.ts';
import { attemptsOf, Choice, LogHead, ofAttempt, STREAMS, Switch } from './log-controls.tsx';
import { LogLines } from './log-lines.tsx';
import { useLinesAround, useLogs } from './use-logs.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
const SINCE = [
  ['15 minutes', 15],
  ['1 hour', 60],
  ['1 day', 1_440],
  ['7 days', 10_080],
] as const;

const DEFAULTS = {
  ...{ text: '', regex: '', level: '', stream: '', worker: '', job: '', attempt: '', last: '60', follow: '1', wrap: '1' },
  /** Time and worker of the line whose surroundings are shown. */
  ...{ around: '', of: '' },
};

/** Searches what the workers of an endpoint printed, and follows it; or shows the lines around one. */
export function LogSearch({ endpoint }: { endpoint: string }): JSX.Element {
  const [{ around, of }, change] = useUrlState(DEFAULTS);
  if (Number.isNaN(Date.parse(around)) || of === '') return <Search endpoint={endpoint} />;
  return (
    <>
      <p>
        The lines of worker <Text of={of} /> around {clock(around)}, of all levels and streams.{' '}
        <button type="button" onClick={() => change({ around: '', of: '' })}>
          Back to the search
        </button>
      </p>
      <Around endpoint={endpoint} worker={of} at={around} />
    </>
  );
}

function Around({ endpoint, worker, at }: { endpoint: string; worker: string; at: string }): JSX.Element {
  const query = useLinesAround(endpoint, worker, at);
  return (
    <Loaded query={query}>
      {(lines) =>
        lines.length === 0 ? <p class="muted">No lines.</p> : <LogLines endpoint={endpoint} lines={lines} marked={at} hasJobs />
      }
    </Loaded>
  );
}

function Search({ endpoint }: { endpoint: string }): JSX.Element {
  const [values, change] = useUrlState(DEFAULTS);
  const { text, level, stream } = values;
  const [worker, job] = [values.worker.trim(), values.job.trim()];
  const isPattern = values.regex !== '';
  const isFollowing = values.follow === '1';
  const isWrapped = values.wrap === '1';
  const minutes = SINCE.find(([, each]) => String(each) === values.last)?.[1] ?? 60;
  const query = useLogs({ endpoint, text, isPattern, level, stream, worker, job, minutes }, isFollowing);
  const attempts = attemptsOf(query.data?.lines ?? []);
  return (
    <>
      <div class="fields">
        <div>
          <label for="log-text">{isPattern ? 'Regular expression (RE2)' : 'Text'}</label>
          <input id="log-text" type="search" value={text} onChange={(event) => change({ text: event.currentTarget.value }, 'replace')} />
        </div>
        <Choice id="log-level" label="Least level" value={level} of={LEVELS} onChange={(value) => change({ level: value })} />
        <Choice id="log-stream" label="Stream" value={stream} of={STREAMS} onChange={(value) => change({ stream: value })} />
        <div>
          <label for="log-worker">Worker</label>
          <input
            id="log-worker"
            type="search"
            placeholder="all"
            value={values.worker}
            onChange={(event) => change({ worker: event.currentTarget.value }, 'replace')}
          />
        </div>
        <div>
          <label for="log-job">Job</label>
          <input
            id="log-job"
            type="search"
            placeholder="all"
            value={values.job}
            onChange={(event) => change({ job: event.currentTarget.value, attempt: '' }, 'replace')}
          />
        </div>
        {(attempts.length > 1 || values.attempt !== '') && (
          <Choice id="log-attempt" label="Attempt" value={values.attempt} of={attempts} onChange={(value) => change({ attempt: value })} />
        )}
        <div>
          <label for="log-since">Last</label>
          <select id="log-since" value={String(minutes)} onChange={(event) => change({ last: event.currentTarget.value })}>
            {SINCE.map(([name, value]) => (
              <option key={name} value={String(value)}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <Switch label="Regular expression" isOn={isPattern} onChange={(isOn) => change({ regex: isOn ? '1' : '' })} />
        <Switch label="Follow" isOn={isFollowing} onChange={(isOn) => change({ follow: isOn ? '1' : '0' })} />
        <Switch label="Wrap" isOn={isWrapped} onChange={(isOn) => change({ wrap: isOn ? '1' : '0' })} />
      </div>
      <Loaded query={query}>
        {({ lines, incomplete, missingNodes, unfilteredNodes }) => {
          const shown = ofAttempt(lines, values.attempt);
          return (
            <>
              {incomplete && <p class="muted">The search took too long: older lines are not shown. Narrow the time.</p>}
              {missingNodes.length > 0 && <p class="muted">{missingNodes.length} nodes with lines of this endpoint did not reply.</p>}
              {unfilteredNodes.length > 0 && (
                <p class="muted">
                  Lines of <Text of={unfilteredNodes.join(', ')} /> are left out: the agents there are of an earlier version and cannot
                  filter.
                </p>
              )}
              <LogHead name={endpoint} lines={shown} />
              {shown.length === 0 ? (
                <p class="muted">No lines.</p>
              ) : (
                <LogLines
                  endpoint={endpoint}
                  lines={shown}
                  isWrapped={isWrapped}
                  hasJobs
                  onAround={(line) => change({ around: line.at, of: line.worker })}
                />
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
