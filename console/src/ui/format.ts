/** Numbers and times as the pages show them. */

const ONE_DIGIT = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const TWO_DIGITS = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });

/** A count, or the mean of counts. */
export function count(value: number): string {
  return TWO_DIGITS.format(value);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const STEP = 1024;

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? ONE_DIGIT.format(value) : Math.round(value)} ${UNITS[unit] ?? ''}`;
}

export function duration(ms: number | undefined): string {
  if (ms === undefined) return '–';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${ONE_DIGIT.format(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

/** A span of time in whole units: `12 s`, `5 min`, `3 h`, `2 days`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/** Local time of an ISO timestamp; a dash for none. */
export function time(iso: string | null | undefined): string {
  return iso == null ? '–' : new Date(iso).toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' });
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  ...({ hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const),
  hourCycle: 'h23',
});
const CLOCK_OF_DAY = new Intl.DateTimeFormat(undefined, {
  ...({ month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const),
  hourCycle: 'h23',
});

/** Local time of the day with milliseconds; of another day with its date. */
export function clock(iso: string): string {
  const at = new Date(iso);
  return (at.toDateString() === new Date().toDateString() ? CLOCK : CLOCK_OF_DAY).format(at);
}

/** The browser's time zone: `Europe/Berlin (GMT+1)`. */
export function zoneName(): string {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: 'shortOffset' }).formatToParts();
  const offset = parts.find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return offset === '' || offset === timeZone ? timeZone : `${timeZone} (${offset})`;
}

/** Returns when a UUIDv7 was made, as an ISO timestamp: the submission of a job is in its id. */
export function timeOfId(id: string): string | undefined {
  const [, high, low] = /([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(id) ?? [];
  return high === undefined || low === undefined ? undefined : new Date(Number.parseInt(high + low, 16)).toISOString();
}

export function percent(used: number, of: number): string {
  return of === 0 ? '–' : `${Math.round((100 * used) / of)} %`;
}
