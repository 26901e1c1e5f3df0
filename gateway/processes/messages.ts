/**
 * Messages between the primary of a gateway and its processes. Where a version was replaced in place, a process that was started
 * afterwards is newer than its primary: what one does not know it ignores.
 */
import { z } from 'zod';

import type { GatewayConfig } from '../config.ts';
import type { MetricData } from '../metrics/joined-figures.ts';

/** As the library's registry returns it. */
const metric = z.custom<MetricData>((value) => typeof value === 'object' && value !== null && 'name' in value && 'values' in value);

/** From a process. A request has an id, which its reply repeats. */
export const fromProcess = z.discriminatedUnion('type', [
  /** It runs: its settings may follow. */
  z.object({ type: z.literal('ready') }),
  /** It serves at this URL. */
  z.object({ type: z.literal('serving'), url: z.string() }),
  /** It could not start. */
  z.object({ type: z.literal('failed'), code: z.string(), message: z.string(), field: z.string().optional() }),
  /** Reply to `collect`, and, with the id 0, its last figures before it ends. */
  z.object({ type: z.literal('metrics'), id: z.number(), metrics: z.array(metric) }),
  /** Requests the figures of all processes. */
  z.object({ type: z.literal('scrape'), id: z.number() }),
  /** It listens no more and is about to end: connections that were passed on before the reply come before it. */
  z.object({ type: z.literal('leave'), id: z.number() }),
  /** Requests one event of the rate of a key; `name` identifies the key without showing it. */
  z.object({ type: z.literal('take'), id: z.number(), name: z.string() }),
]);

export type FromProcess = z.input<typeof fromProcess>;

/** To a process. */
export type ToProcess =
  | { readonly type: 'start'; readonly config: GatewayConfig; readonly process: number }
  | { readonly type: 'collect'; readonly id: number }
  | { readonly type: 'scraped'; readonly id: number; readonly metrics: readonly (readonly MetricData[])[] }
  | { readonly type: 'left'; readonly id: number }
  | { readonly type: 'taken'; readonly id: number; readonly isAllowed: boolean }
  | { readonly type: 'close' };

/** Id of the figures that a process sends before it ends. */
export const LAST_FIGURES = 0;
