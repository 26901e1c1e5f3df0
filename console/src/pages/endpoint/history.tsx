import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { GET_HISTORY, type History } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { duration } from '../../ui/format.ts';
import { Loaded, Section } from '../../ui/parts.tsx';
import { PlotContext, type StepLink } from '../../ui/plot-context.ts';
import { endedSteps, Plot } from '../../ui/plot.tsx';
import { countsOf, DURATIONS } from '../../ui/plot-scales.ts';
import { boundsOf, useTimeRange } from '../../ui/time-range.tsx';
import { Latency } from './latency.tsx';
import type { EndpointData } from './query.ts';
import { MarkKey, useMarks } from './history-marks.tsx';
import { RouteHistory } from './route-history.tsx';

const HOUR_MS = 3_600_000;
/** Intervals at which plots are read again: as often as a step of the shortest range, then as of a minute, ms. */
const SHORT_POLL_MS = 10_000;
const POLL_MS = 60_000;

/** Plots of an endpoint: of its jobs where it has a queue, else of its requests. */
export function EndpointHistory({ endpoint: of }: { endpoint: EndpointData }): JSX.Element {
  const { id: endpoint, kind, routes } = of;
  const hasQueue = kind === 'QUEUE';
  const marks = useMarks(of);
  const { range, zoom, field } = useTimeRange(['1h', '6h', '24h', '7d', '90d']);
  const everyMs = range.fixed === undefined && (range.length === HOUR_MS ? SHORT_POLL_MS : POLL_MS);
  const query = useLive(
    ['history', endpoint, range.key],
    (signal) => graphql(GET_HISTORY, { endpoint, ...boundsOf(range) }, signal),
    everyMs,
  );
  return (
    <Section title="History">
      <div class="fields">{field}</div>
      <MarkKey marks={marks} />
      <PlotContext.Provider value={{ zoom, marks, link: hasQueue ? jobsOf(endpoint) : undefined }}>
        {!hasQueue && <RouteHistory endpoint={endpoint} range={range} everyMs={everyMs} isWhole={routes.length === 0} />}
        <Loaded query={query}>{({ history }) => <Plots history={history} hasQueue={hasQueue} />}</Loaded>
      </PlotContext.Provider>
    </Section>
  );
}

/** The jobs that were submitted within a span of time. */
function jobsOf(endpoint: string): StepLink {
  return { noun: 'Jobs', pathOf: (from, to) => `/endpoints/${encodeURIComponent(endpoint)}/jobs?since=${from}&until=${to}` };
}

function Plots({ history, hasQueue }: { history: History; hasQueue: boolean }): JSX.Element {
  const { workers, starts, step } = history;
  const at = useMemo(() => endedSteps(history), [history]);
  const failed = useMemo(() => history.failed.map((count, i) => count + (history.timedOut[i] ?? 0)), [history]);
  const every = `in steps of ${duration(step * 1000)}`;
  return (
    <div class="plots">
      {hasQueue && (
        <>
          <Plot
            title="Jobs"
            summary={`${total(history.submitted)} submitted, ${total(history.completed)} completed, ${total(failed)} failed, ${every}`}
            at={at}
            step={step}
            scale={countsOf('jobs', step)}
            series={[
              { title: 'submitted', values: history.submitted, colour: '--accent' },
              { title: 'completed', values: history.completed, colour: '--good' },
              { title: 'failed', values: failed, colour: '--bad' },
            ]}
          />
          <Plot
            title="Queue"
            summary={`${most(history.longestQueue)} jobs in the longest queue, ${every}`}
            at={at}
            step={step}
            scale={countsOf('jobs')}
            series={[
              { title: 'in queue', values: history.inQueue, colour: '--accent' },
              { title: 'in progress', values: history.inProgress, colour: '--good' },
            ]}
          />
          <Latency title="Delay" durations={history.delay} at={at} step={step} />
          <Latency title="Execution" durations={history.execution} at={at} step={step} />
        </>
      )}
      <Plot
        title="Workers"
        summary={`at most ${most(workers.running)} running and ${most(workers.idle)} idle, ${every}`}
        at={at}
        step={step}
        scale={countsOf('workers')}
        series={[
          { title: 'running', values: workers.running, colour: '--good' },
          { title: 'idle', values: workers.idle, colour: '--accent' },
          { title: 'initializing', values: workers.initializing, colour: '--muted' },
          { title: 'throttled', values: workers.throttled, colour: '--warn' },
          { title: 'unhealthy', values: workers.unhealthy, colour: '--bad' },
        ]}
      />
      <Plot
        title="Cold starts"
        summary={`${total(starts.count)} workers started, ${every}`}
        at={at}
        step={step}
        scale={DURATIONS}
        series={[
          { title: 'placed', values: starts.placed, colour: '--muted' },
          { title: 'build fetched', values: starts.artifact, colour: '--accent' },
          { title: 'process started', values: starts.started, colour: '--warn' },
          { title: 'module loaded', values: starts.loaded, colour: '--good' },
        ]}
      />
    </div>
  );
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function most(values: readonly number[]): number {
  return Math.max(0, ...values);
}
