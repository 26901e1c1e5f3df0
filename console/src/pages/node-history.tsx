import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { DEVICE_HISTORY } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { duration } from '../ui/format.ts';
import { Loaded, Section } from '../ui/parts.tsx';
import { PlotContext } from '../ui/plot-context.ts';
import { Plot, type Series } from '../ui/plot.tsx';
import { BYTES, symbol } from '../ui/plot-scales.ts';
import { boundsOf, useTimeRange, type TimeRange } from '../ui/time-range.tsx';
import { oneOf, useUrlState } from '../ui/url-state.ts';
import { DeviceEvents } from './device-events.tsx';
import type { DeviceHistory, Recorded } from './device-history.ts';
import type { Device } from './devices.tsx';

const POLL_MS = 60_000;
/** GPUs whose curves are told apart in one plot: as many colours there are. */
const MAX_TOGETHER = 8;
const ALL = 'all';

interface NodeOfDevices {
  readonly id: string;
  readonly name: string;
  readonly devices: readonly Device[];
}

async function read(node: string, devices: readonly Device[], range: TimeRange, signal: AbortSignal): Promise<readonly DeviceHistory[]> {
  const variables = devices.map((_, i) => `$d${i}: ID!`).join(', ');
  const fields = devices
    .map((_, i) => `d${i}: deviceHistory(node: $node, device: $d${i}, from: $from, to: $to) { ${DEVICE_HISTORY} }`)
    .join(' ');
  const found = await graphql<Record<string, DeviceHistory>, object>(
    `query ($node: ID!, $from: Float!, $to: Float, ${variables}) { ${fields} }`,
    { node, ...boundsOf(range), ...Object.fromEntries(devices.map(({ uuid }, i) => [`d${i}`, uuid])) },
    signal,
  );
  return devices.flatMap((_, i) => found[`d${i}`] ?? []);
}

/** Plots of the GPUs of a node, and what happened to them. */
export function NodeHistory({ node: { id, name, devices } }: { node: NodeOfDevices }): JSX.Element {
  const { range, zoom, field } = useTimeRange(['1h', '6h', '24h', '3d']);
  const [{ gpu }, change] = useUrlState({ gpu: '' });
  const named = devices.map((device, place) => ({ device, title: `${place} ${device.model}` })).filter(({ device }) => device.uuid !== '');
  const uuids = named.map(({ device }) => device.uuid);
  const chosen = named.length > MAX_TOGETHER ? oneOf(gpu, [uuids[0] ?? '', ...uuids]) : oneOf(gpu, [ALL, ...uuids]);
  const shown = named.filter(({ device }) => chosen === ALL || device.uuid === chosen);
  const query = useLive(
    ['device-history', id, shown.map(({ device }) => device.uuid).join(' '), range.key],
    (signal) =>
      read(
        id,
        shown.map(({ device }) => device),
        range,
        signal,
      ),
    range.fixed === undefined ? POLL_MS : false,
  );
  return (
    <Section title="GPU history">
      <div class="fields">
        <div>
          <label for="node-gpu">GPU</label>
          <select id="node-gpu" value={chosen} onChange={(event) => change({ gpu: event.currentTarget.value })}>
            {named.length <= MAX_TOGETHER && <option value={ALL}>all</option>}
            {named.map(({ title, device: { uuid } }) => (
              <option key={uuid} value={uuid}>
                {`${title} ${uuid}`}
              </option>
            ))}
          </select>
        </div>
        {field}
      </div>
      <Loaded query={query}>
        {(histories) => {
          const recorded = shown.flatMap((each, i) => {
            const history = histories[i];
            return history === undefined ? [] : [{ ...each, history }];
          });
          return (
            <PlotContext.Provider value={{ zoom }}>
              <Plots key={chosen} node={name} recorded={recorded} />
              <DeviceEvents recorded={recorded} />
            </PlotContext.Provider>
          );
        }}
      </Loaded>
    </Section>
  );
}

const PLOTS = [
  { title: 'GPU utilization', of: 'utilization', scale: symbol('%') },
  { title: 'GPU memory', of: 'memoryUsedBytes', scale: BYTES },
  { title: 'GPU power', of: 'powerWatts', scale: symbol('W') },
  { title: 'GPU temperature', of: 'temperatureCelsius', scale: symbol('°C') },
] as const;

/** Whether something of a step is recorded: of a minute that goes on nothing is. */
function isRecorded(step: number, recorded: readonly Recorded[]): boolean {
  return recorded.some(({ history }) => PLOTS.some(({ of }) => history[of][step] != null));
}

function Plots({ node, recorded }: { node: string; recorded: readonly Recorded[] }): JSX.Element {
  const { at: begins = [], step = 0 } = recorded[0]?.history ?? {};
  const at = useMemo(() => (isRecorded(begins.length - 1, recorded) ? begins : begins.slice(0, -1)), [begins, recorded]);
  const every = `on ${node}, in steps of ${duration(step * 1000)}`;
  return (
    <div class="plots">
      {PLOTS.map(({ title, of, scale }) => {
        const highest = Math.max(0, ...recorded.flatMap(({ history }) => history[of].map((value) => value ?? 0)));
        return (
          <Plot
            key={title}
            title={title}
            summary={`at most ${scale.shown(highest)}${of === 'memoryUsedBytes' ? ' used' : ''} ${every}`}
            at={at}
            step={step}
            scale={scale}
            series={recorded.map(({ title: name, history }, place): Series => ({
              title: name,
              values: history[of],
              colour: `--series-${place % MAX_TOGETHER}`,
            }))}
          />
        );
      })}
    </div>
  );
}
