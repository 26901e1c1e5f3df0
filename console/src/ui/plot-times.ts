/** Times of plots, in the browser's language and zone. Another one can be given. */

const MINUTE_S = 60;
const DAY_S = 86_400;

export interface Place {
  readonly locale?: string;
  readonly timeZone?: string;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(options: Intl.DateTimeFormatOptions, { locale, timeZone }: Place): Intl.DateTimeFormat {
  const key = JSON.stringify([options, locale, timeZone]);
  const known = formats.get(key);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat(locale, { ...options, ...(timeZone === undefined ? {} : { timeZone }) });
  formats.set(key, made);
  return made;
}

/** Labels of an axis whose marks are `every` seconds apart: the date stands below the first time, and below the first of a day. */
export function timeLabels(seconds: readonly number[], every: number, place: Place = {}): string[] {
  const date = format({ day: '2-digit', month: '2-digit' }, place);
  const clock = format({ hour: '2-digit', minute: '2-digit', ...(every < MINUTE_S ? { second: '2-digit' } : {}) }, place);
  let before = '';
  return seconds.map((at) => {
    const day = date.format(at * 1_000);
    if (every >= DAY_S) return day;
    const isNew = day !== before;
    before = day;
    return `${clock.format(at * 1_000)}${isNew ? `\n${day}` : ''}`;
  });
}

/** The time of a step of a plot, with its date. */
export function stepTime(ms: number, place: Place = {}): string {
  return format({ dateStyle: 'short', timeStyle: 'medium' }, place).format(ms);
}

/** The minute of a step, without its date: `15:04`. */
export function minuteTime(ms: number, place: Place = {}): string {
  return format({ hour: '2-digit', minute: '2-digit' }, place).format(ms);
}

const MINUTE_MS = 60_000;

/** The whole minutes that a step of `stepS` seconds touches, ms since 1970. */
export function minutesOf(at: number, stepS: number): { readonly from: number; readonly to: number } {
  return {
    from: Math.floor(at / MINUTE_MS) * MINUTE_MS,
    to: Math.ceil((at + stepS * 1_000) / MINUTE_MS) * MINUTE_MS,
  };
}
