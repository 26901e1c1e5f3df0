import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { GET_ROUTE_HISTORY, type GetRouteHistoryResult } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { duration } from '../../ui/format.ts';
import { Loaded } from '../../ui/parts.tsx';
import { visible } from '../../ui/plain-text.ts';
import { endedSteps, Plot } from '../../ui/plot.tsx';
import { countsOf } from '../../ui/plot-scales.ts';
import { boundsOf, type TimeRange } from '../../ui/time-range.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { Latency } from './latency.tsx';
import { nameOf } from './routes.tsx';

const ALL = '';

interface RouteHistoryProps {
  readonly endpoint: string;
  readonly range: TimeRange;
  /** False for a fixed range. */
  readonly everyMs: number | false;
  /** The endpoint declares no routes. */
  readonly isWhole: boolean;
}

/** Plots of the requests of all routes, or of one. */
export function RouteHistory({ endpoint, range, everyMs, isWhole }: RouteHistoryProps): JSX.Element {
  const [{ route: chosen }, change] = useUrlState({ route: ALL });
  const query = useLive(
    ['route-history', endpoint, range.key],
    (signal) => graphql(GET_ROUTE_HISTORY, { endpoint, ...boundsOf(range) }, signal),
    everyMs,
  );
  return (
    <Loaded query={query}>
      {({ routeHistory: { step, at, openSteps, all, routes } }) => {
        const named = routes.map((route) => [nameOf(route, isWhole), route] as const);
        return (
          <>
            {named.length > 1 && (
              <div class="fields">
                <div>
                  <label for="history-route">Route</label>
                  <select id="history-route" value={chosen} onChange={({ currentTarget }) => change({ route: currentTarget.value })}>
                    <option value={ALL}>all routes</option>
                    {named.map(([name]) => (
                      <option key={name} value={name}>
                        {visible(name)}
                      </option>
                    ))}
                  </select>
                </div>
              </div>
            )}
            <Plots series={new Map(named).get(chosen) ?? all} at={endedSteps({ at, openSteps })} step={step} />
          </>
        );
      }}
    </Loaded>
  );
}

function Plots({
  series,
  at,
  step,
}: {
  series: GetRouteHistoryResult['routeHistory']['all'];
  at: readonly number[];
  step: number;
}): JSX.Element {
  const rate = useMemo(() => series.requests.map((count) => (count * 60) / step), [series, step]);
  const every = `in steps of ${duration(step * 1000)}`;
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return (
    <div class="plots">
      <Plot
        title="Requests a minute"
        summary={`${sum(series.requests)} requests, ${every}`}
        at={at}
        step={step}
        scale={countsOf('requests a minute')}
        series={[{ title: 'requests', values: rate, colour: '--accent' }]}
      />
      <Plot
        title="Refused and failed requests"
        summary={`${sum(series.refused)} with status 4xx, ${sum(series.errors)} with status 5xx, ${every}`}
        at={at}
        step={step}
        scale={countsOf('requests', step)}
        series={[
          { title: '4xx', values: series.refused, colour: '--warn' },
          { title: '5xx', values: series.errors, colour: '--bad' },
        ]}
      />
      <Latency title="Latency" durations={series.durations} at={at} step={step} />
    </div>
  );
}
