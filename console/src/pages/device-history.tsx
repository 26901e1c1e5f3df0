import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { bytes, duration } from '../ui/format.ts';
import { Loaded, Text } from '../ui/parts.tsx';
import { Plot, type Values } from '../ui/plot.tsx';
import type { Device } from './devices.tsx';

interface History {
  readonly step: number;
  readonly at: readonly number[];
  readonly utilization: Values;
  readonly powerWatts: Values;
  readonly memoryUsedBytes: Values;
  readonly temperatureCelsius: Values;
  readonly throttleReasons: readonly (readonly string[])[];
  readonly eccCorrected: Values;
  readonly eccUncorrected: Values;
  readonly xid: Values;
}

const QUERY = `query ($node: ID!, $device: ID!, $from: Float!) {
  deviceHistory(node: $node, device: $device, from: $from) {
    step at utilization powerWatts memoryUsedBytes temperatureCelsius throttleReasons eccCorrected eccUncorrected xid
  }
}`;

const HOUR_MS = 3_600_000;
const RANGES = [
  ['1 hour', HOUR_MS],
  ['6 hours', 6 * HOUR_MS],
  ['24 hours', 24 * HOUR_MS],
  ['3 days', 72 * HOUR_MS],
] as const;
const POLL_MS = 60_000;

interface NodeOfDevices {
  readonly id: string;
  readonly name: string;
  readonly devices: readonly Device[];
}

/** Plots of one GPU of a node; read when they are opened. */
export function DeviceHistory({ node }: { node: NodeOfDevices }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        History of the GPUs of <Text of={node.name} />
      </summary>
      {isOpen && <ChosenDevice node={node} />}
    </details>
  );
}

function ChosenDevice({ node: { id: node, name, devices } }: { node: NodeOfDevices }): JSX.Element {
  const [range, setRange] = useState<number>(HOUR_MS);
  const [chosen, setChosen] = useState(devices[0]?.uuid ?? '');
  const device = devices.find(({ uuid }) => uuid === chosen)?.uuid ?? devices[0]?.uuid ?? '';
  const query = useLive(
    ['device-history', node, device, range],
    (signal) => graphql<{ deviceHistory: History }>(QUERY, { node, device, from: Date.now() - range }, signal),
    POLL_MS,
  );
  return (
    <>
      <div class="fields">
        <div>
          <label for={`gpu-of-${node}`}>GPU</label>
          <select id={`gpu-of-${node}`} value={device} onChange={(event) => setChosen(event.currentTarget.value)}>
            {devices.map(({ uuid, model }, place) => (
              <option key={uuid} value={uuid}>
                {`${place} ${model} ${uuid}`}
              </option>
            ))}
          </select>
        </div>
        <div>
          <label for={`range-of-${node}`}>Last</label>
          <select id={`range-of-${node}`} value={range} onChange={(event) => setRange(Number(event.currentTarget.value))}>
            {RANGES.map(([title, ms]) => (
              <option key={ms} value={ms}>
                {title}
              </option>
            ))}
          </select>
        </div>
      </div>
      <Loaded query={query}>{({ deviceHistory }) => <Plots key={device} node={name} history={deviceHistory} />}</Loaded>
    </>
  );
}

function Plots({ node, history }: { node: string; history: History }): JSX.Element {
  const { at, step, utilization, memoryUsedBytes, powerWatts, temperatureCelsius } = history;
  const every = `on ${node}, in steps of ${duration(step * 1000)}`;
  return (
    <>
      <div class="plots">
        <Plot
          title="GPU utilization"
          summary={`at most ${unit(most(utilization), '%')} ${every}`}
          at={at}
          shown={(value) => unit(value, '%')}
          series={[{ title: 'busy', values: utilization, colour: '--accent' }]}
        />
        <Plot
          title="GPU memory"
          summary={`at most ${bytes(most(memoryUsedBytes))} used ${every}`}
          at={at}
          shown={bytes}
          series={[{ title: 'used', values: memoryUsedBytes, colour: '--good' }]}
        />
        <Plot
          title="GPU power"
          summary={`at most ${unit(most(powerWatts), 'W')} ${every}`}
          at={at}
          shown={(value) => unit(value, 'W')}
          series={[{ title: 'power', values: powerWatts, colour: '--warn' }]}
        />
        <Plot
          title="GPU temperature"
          summary={`at most ${unit(most(temperatureCelsius), '°C')} ${every}`}
          at={at}
          shown={(value) => unit(value, '°C')}
          series={[{ title: 'temperature', values: temperatureCelsius, colour: '--bad' }]}
        />
      </div>
      <Events history={history} />
    </>
  );
}

/** What no curve shows: lowered clocks, memory errors and errors of the driver. */
function Events({ history: { throttleReasons, eccCorrected, eccUncorrected, xid } }: { history: History }): JSX.Element {
  const reasons = [...new Set(throttleReasons.flat())];
  const lowered = throttleReasons.filter((each) => each.length > 0).length;
  const errors = [...new Set(xid.filter((code) => code !== null))];
  const corrected = increase(eccCorrected);
  const uncorrected = increase(eccUncorrected);
  return (
    <ul class="muted">
      <li>
        {lowered === 0
          ? 'Clocks were not lowered.'
          : `Clocks were lowered in ${lowered} of ${throttleReasons.length} steps: ${reasons.join(', ')}.`}
      </li>
      <li>
        {corrected + uncorrected === 0 ? 'No new memory errors.' : `New memory errors: ${corrected} corrected, ${uncorrected} uncorrected.`}
      </li>
      <li>{errors.length === 0 ? 'No errors of the driver (Xid).' : `Errors of the driver: Xid ${errors.join(', ')}.`}</li>
    </ul>
  );
}

function most(values: Values): number {
  return Math.max(0, ...values.map((value) => value ?? 0));
}

/** How much a count rose; it starts anew with the driver. */
function increase(values: Values): number {
  let sum = 0;
  let before: number | null = null;
  for (const value of values) {
    if (value === null) continue;
    if (before !== null) sum += value >= before ? value - before : value;
    before = value;
  }
  return sum;
}

function unit(value: number, name: string): string {
  return `${Math.round(value)} ${name}`;
}
