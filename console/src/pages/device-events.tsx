/** Events of GPUs: errors of the driver (Xid), memory errors, lowered clocks. */
import type { JSX } from 'preact';

import { duration, time } from '../ui/format.ts';
import { Table, Text } from '../ui/parts.tsx';
import type { Values } from '../ui/plot.tsx';
import type { DeviceHistory, Recorded } from './device-history.ts';

interface Event {
  /** Begin of the step in which it happened, ms since 1970. */
  readonly at: number;
  readonly device: string;
  readonly what: string;
}

const MAX_SHOWN = 100;

export function DeviceEvents({ recorded }: { recorded: readonly Recorded[] }): JSX.Element {
  const events = recorded.flatMap(eventsOf).toSorted((a, b) => b.at - a.at);
  return (
    <>
      <h3>Events</h3>
      <Table
        label="Events of the GPUs"
        rows={events.slice(0, MAX_SHOWN).map((event, place) => ({ ...event, place }))}
        id={({ place }) => String(place)}
        empty="No errors of the driver (Xid), no new memory errors, and clocks were not lowered."
        columns={[
          { title: 'Time', isId: true, cell: ({ at }) => time(new Date(at).toISOString()) },
          { title: 'GPU', cell: ({ device }) => <Text of={device} /> },
          { title: 'What', cell: ({ what }) => <Text of={what} /> },
        ]}
      />
      {events.length > MAX_SHOWN && (
        <p class="muted">
          The latest {MAX_SHOWN} of {events.length}.
        </p>
      )}
    </>
  );
}

function eventsOf({ title, device, history }: Recorded): Event[] {
  const { at, step } = history;
  const event = (place: number, what: string): Event => ({ at: at[place] ?? 0, device: title, what });
  const errors = history.xid.flatMap((code, place) => {
    if (code === null) return [];
    const begin = at[place] ?? 0;
    // Only the latest errors have a text.
    const known = device.xids.find((xid) => xid.code === code && Date.parse(xid.at) >= begin && Date.parse(xid.at) < begin + step * 1_000);
    return [event(place, `Xid ${code}${known === undefined ? '' : `: ${known.text}`}`)];
  });
  return [
    ...errors,
    ...increases(history.eccCorrected).map(([place, count]) => event(place, `${count} corrected memory errors (ECC)`)),
    ...increases(history.eccUncorrected).map(([place, count]) => event(place, `${count} uncorrected memory errors (ECC)`)),
    ...lowered(history).map(({ place, steps, reasons }) =>
      event(place, `clocks lowered for ${duration(steps * step * 1_000)}: ${reasons}`),
    ),
  ];
}

/** Where a count rose, and by how much; it starts anew with the driver. */
function increases(values: Values): (readonly [place: number, count: number])[] {
  let before: number | null = null;
  const found: (readonly [number, number])[] = [];
  for (const [place, value] of values.entries()) {
    if (value === null) continue;
    const count: number = before === null ? 0 : value >= before ? value - before : value;
    if (count > 0) found.push([place, count]);
    before = value;
  }
  return found;
}

/** Spans of steps with the same reasons for lowered clocks. */
function lowered({ throttleReasons }: DeviceHistory): { readonly place: number; readonly steps: number; readonly reasons: string }[] {
  const found: { place: number; steps: number; reasons: string }[] = [];
  for (const [place, each] of throttleReasons.entries()) {
    const reasons = each.join(', ');
    const last = found.at(-1);
    if (reasons === '') continue;
    if (last?.reasons === reasons && last.place + last.steps === place) last.steps += 1;
    else found.push({ place, steps: 1, reasons });
  }
  return found;
}
