/** Minutes of a device as series of equal steps without gaps. */
import { CapstanError } from '../../lib/errors.ts';
import { DEVICE_MINUTES_KEPT_MS, type DeviceHistoryStore } from '../store/device-history.ts';
import { combine, decodeMinutes, emptyMinute, mean, type DeviceMinute } from './device-minutes.ts';

export interface DeviceSeriesRequest {
  readonly node: string;
  readonly device: string;
  /** Wall clock, ms. */
  readonly from: number;
  readonly to: number;
  /** Length of a step, s; 0: one that suits the range. */
  readonly step: number;
}

export interface DeviceSeries {
  /** Begin of the first step, wall clock ms. */
  readonly from: number;
  /** Length of a step, s. */
  readonly step: number;
  readonly values: readonly DeviceMinute[];
}

const MINUTE_S = 60;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const MAX_STEPS = 1_500;
/** Steps that are chosen when none is asked for, s, and about as many as a plot shows. */
const CHOICE = [60, 300, 900, 3_600];
const CHOSEN_STEPS = 400;

/** @throws CapstanError INVALID_ARGUMENT */
export async function readDeviceSeries(store: DeviceHistoryStore, request: DeviceSeriesRequest, now: number): Promise<DeviceSeries> {
  const { node, device, to } = request;
  if (to <= request.from) throw new CapstanError('INVALID_ARGUMENT', 'to: must be after from', { field: 'to' });
  const oldest = now - DEVICE_MINUTES_KEPT_MS;
  const start = Math.max(request.from, oldest);
  const step = request.step === 0 ? (CHOICE.find((each) => (to - start) / (each * 1_000) <= CHOSEN_STEPS) ?? 3_600) : request.step;
  if (step < 0 || step % MINUTE_S !== 0) throw new CapstanError('INVALID_ARGUMENT', 'step: must be a multiple of 60 s', { field: 'step' });
  const stepMs = step * 1_000;
  const first = Math.floor(start / stepMs) * stepMs;
  const until = Math.min(Math.ceil(to / stepMs), Math.ceil(now / stepMs)) * stepMs;
  const steps = Math.max(0, (until - first) / stepMs);
  if (steps > MAX_STEPS) throw new CapstanError('INVALID_ARGUMENT', `step: the range has more than ${MAX_STEPS} steps`, { field: 'step' });
  if (steps === 0) return { from: first, step, values: [] };
  const buckets = Array.from({ length: steps }, (): DeviceMinute[] => []);
  // A row holds minutes of the hour in which it begins.
  const rows = await store.read({ node, device, from: Math.floor(first / HOUR_MS) * HOUR_MS, until });
  for (const { at, value } of rows) {
    const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
    for (const [minute, gauges] of decodeMinutes(value)) {
      const begin = hour + minute * MINUTE_MS;
      if (begin >= first && begin < until) buckets[Math.floor((begin - first) / stepMs)]?.push(gauges);
    }
  }
  return { from: first, step, values: buckets.map(together) };
}

function together(minutes: readonly DeviceMinute[]): DeviceMinute {
  const sum = emptyMinute();
  for (const each of minutes) combine(sum, each);
  const present = (name: 'utilization' | 'power'): number[] => minutes.map((each) => each[name]).filter((value) => value !== null);
  return { ...sum, utilization: mean(present('utilization')), power: mean(present('power')) };
}
