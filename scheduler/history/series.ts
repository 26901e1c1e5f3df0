/** Rows of the store as series over time, of equal steps without gaps. */
import { CapstanError } from '../../lib/errors.ts';
import { heldMs, HISTORY_STEPS, type HistoryStore } from '../store/history.ts';
import { addTo, decode, emptyBucket, LEVELS, type Bucket } from './bucket.ts';

export interface SeriesRequest {
  readonly endpoint: string;
  /** Wall clock, ms. */
  readonly from: number;
  readonly to: number;
  /** Length of a step, s. */
  readonly step: number;
  /** Requests by route are read, too. */
  readonly byRoute?: boolean;
}

export interface Series {
  /** Begin of the first step, wall clock ms. */
  readonly from: number;
  /** Length of a step, s. */
  readonly step: number;
  readonly buckets: readonly Bucket[];
  /** How many of the last ones go on, or are not wholly written. */
  readonly open: number;
}

/** Time within which the rows of a step that has ended are written, ms. */
const WRITTEN_MS = 2_000;
const MAX_STEPS = 2_200;
/** Steps of the store that are read for one answer. */
const MAX_READ = 5_000;
/** Steps that are chosen when none is asked for, s. */
const CHOICE = [10, 60, 300, 900, 3_600, 7_200, 21_600, 86_400];
/** About as many steps a plot shows. */
const CHOSEN_STEPS = 400;
/** What a range may reach beyond what is kept: its begin was read from another clock, ms. */
const SLACK_MS = 600_000;

/** A step for a range, s, such that the store has it for the whole range and a plot has enough of them. */
export function chosenStep(from: number, to: number, now: number): number {
  const fits = (step: number): boolean => {
    const base = baseOf(step);
    return (
      (to - from) / (step * 1000) <= CHOSEN_STEPS && now - from <= base.keptMs + SLACK_MS && (to - from) / (base.step * 1000) <= MAX_READ
    );
  };
  return CHOICE.find(fits) ?? 86_400;
}

/** The longest step of the store of which this one is a multiple. */
function baseOf(step: number): (typeof HISTORY_STEPS)[number] {
  const base = HISTORY_STEPS.findLast((each) => step > 0 && step % each.step === 0);
  if (base === undefined) throw new CapstanError('INVALID_ARGUMENT', 'step: must be a multiple of 10 s', { field: 'step' });
  return base;
}

/**
 * Reads the steps that overlap the range, as far as they are written: the last one may go on.
 * @throws CapstanError INVALID_ARGUMENT
 */
export async function readSeries(
  store: HistoryStore,
  { endpoint, from, to, step, byRoute = false }: SeriesRequest,
  now: number,
): Promise<Series> {
  const base = baseOf(step);
  const [stepMs, baseMs] = [step * 1000, base.step * 1000];
  if (to <= from) throw new CapstanError('INVALID_ARGUMENT', 'to: must be after from', { field: 'to' });
  const first = Math.floor(from / stepMs) * stepMs;
  // A row of an hour is written every minute, the others when their step has ended.
  const writtenUntil = base === HISTORY_STEPS.at(-1) ? now : Math.floor((now - WRITTEN_MS) / baseMs) * baseMs;
  const until = Math.min(Math.ceil(to / stepMs), Math.ceil(writtenUntil / stepMs)) * stepMs;
  if ((until - first) / stepMs > MAX_STEPS || (until - first) / baseMs > MAX_READ)
    throw new CapstanError('INVALID_ARGUMENT', `step: the range has more than ${MAX_STEPS} steps, or ${MAX_READ} of ${base.step} s`, {
      field: 'step',
    });
  if (until <= first) return { from: first, step, buckets: [], open: 0 };
  const rows = await store.read({ endpoint, step: base.step, from: first - heldMs(base.step), until });
  const bySlot = Map.groupBy(rows, ({ at }) => Math.floor(at / baseMs) * baseMs);
  const buckets = Array.from({ length: (until - first) / stepMs }, emptyBucket);
  let lastKnown: LastKnown | null = null;
  for (let slot = first - heldMs(base.step); slot < Math.min(until, writtenUntil); slot += baseMs) {
    const own = bySlot.get(slot);
    const sum = buckets[Math.floor((slot - first) / stepMs)];
    if (sum !== undefined) addTo(sum, own === undefined ? held(lastKnown, slot, base.step) : evened(merged(own, byRoute)));
    // What a scheduler wrote last of a step in which another one began is what stands.
    const last = own?.at(-1);
    if (last !== undefined) lastKnown = { at: slot, value: last.value, last: null };
  }
  return { from: first, step, buckets, open: buckets.length - Math.max(0, Math.floor((writtenUntil - first) / stepMs)) };
}

function merged([first, ...others]: readonly { readonly value: string }[], byRoute: boolean): Bucket {
  const sum = first === undefined ? emptyBucket() : decode(first.value, byRoute);
  for (const { value } of others) addTo(sum, decode(value, byRoute));
  return sum;
}

/** Levels as one sample, their mean: steps of one length weigh the same. */
function evened(bucket: Bucket): Bucket {
  for (const name of LEVELS) bucket.levels[name] /= Math.max(1, bucket.samples);
  bucket.samples = 1;
  return bucket;
}

/** The last row before a step, which is decoded when a step without a row needs it. */
interface LastKnown {
  readonly at: number;
  readonly value: string;
  last: Bucket | null;
}

/** A step without a row: nothing happened, and the levels are those of the last row. */
function held(lastKnown: LastKnown | null, slot: number, step: number): Bucket {
  const bucket = emptyBucket();
  if (lastKnown === null || slot - lastKnown.at >= heldMs(step)) return evened(bucket);
  lastKnown.last ??= decode(lastKnown.value, false);
  Object.assign(bucket.levels, lastKnown.last.levels);
  bucket.samples = lastKnown.last.samples;
  evened(bucket).longestQueue = bucket.levels.inQueue;
  return bucket;
}
