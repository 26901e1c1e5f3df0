import type { JSX } from 'preact';

import { Loaded } from '../ui/parts.tsx';
import { useUrlState } from '../ui/url-state.ts';
import { LogLines } from './log-lines.tsx';
import { useLogs } from './use-logs.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
const SINCE = [
  ['15 minutes', 15],
  ['1 hour', 60],
  ['1 day', 1_440],
  ['7 days', 10_080],
] as const;

/** Searches what the workers of an endpoint printed, and follows it. */
export function LogSearch({ endpoint }: { endpoint: string }): JSX.Element {
  const [values, change] = useUrlState({ text: '', regex: '', level: '', last: '60', follow: '1' });
  const { text, level } = values;
  const isPattern = values.regex !== '';
  const isFollowing = values.follow === '1';
  const minutes = SINCE.find(([, each]) => String(each) === values.last)?.[1] ?? 60;
  const query = useLogs({ endpoint, text, isPattern, level, minutes }, isFollowing);
  return (
    <>
      <div class="fields">
        <div>
          <label for="log-text">{isPattern ? 'Regular expression (RE2)' : 'Text'}</label>
          <input id="log-text" type="search" value={text} onChange={(event) => change({ text: event.currentTarget.value })} />
        </div>
        <div>
          <label for="log-level">Least level</label>
          <select id="log-level" value={level} onChange={(event) => change({ level: event.currentTarget.value })}>
            <option value="">all</option>
            {LEVELS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
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
        <label>
          <input type="checkbox" checked={isPattern} onChange={(event) => change({ regex: event.currentTarget.checked ? '1' : '' })} />{' '}
          Regular expression
        </label>
        <label>
          <input type="checkbox" checked={isFollowing} onChange={(event) => change({ follow: event.currentTarget.checked ? '1' : '0' })} />{' '}
          Follow
        </label>
      </div>
      <Loaded query={query}>
        {({ lines, incomplete, missingNodes, unfilteredNodes }) => (
          <>
            {incomplete && <p class="muted">The search took too long: older lines are not shown. Narrow the time.</p>}
            {missingNodes.length > 0 && <p class="muted">{missingNodes.length} nodes with lines of this endpoint did not reply.</p>}
            {unfilteredNodes.length > 0 && (
              <p class="muted">
                Lines of {unfilteredNodes.join(', ')} are left out: the agents there are of an earlier version and cannot filter.
              </p>
            )}
            {lines.length === 0 ? <p class="muted">No lines.</p> : <LogLines lines={lines} />}
          </>
        )}
      </Loaded>
    </>
  );
}
