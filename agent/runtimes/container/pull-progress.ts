/** Computes the progress of a pull from the engine's status lines (Engine API, ImageCreate). */
import { z } from 'zod';

const event = z.object({
  id: z.string().optional(),
  status: z.string().optional(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).nullish(),
  error: z.string().optional(),
});

interface Layer {
  current: number;
  total: number;
}

export class PullProgress {
  readonly #layers = new Map<string, Layer>();

  /** Handles one line; returns the error of the pull if the line has one. */
  take(line: string): string | undefined {
    const parsed = parse(line);
    if (parsed === undefined) return undefined;
    const { id, status = '', progressDetail, error } = parsed;
    if (error !== undefined) return error;
    if (id === undefined) return undefined;
    const layer = this.#layers.get(id);
    if (status === 'Downloading' && progressDetail?.total !== undefined) {
      this.#layers.set(id, { current: progressDetail.current ?? 0, total: progressDetail.total });
    } else if (layer !== undefined && /^(Download complete|Extracting|Pull complete|Verifying)/.test(status)) {
      layer.current = layer.total;
    }
    return undefined;
  }

  /** `42% of 1.2 GB` of the layers known so far; empty while none is known. */
  get text(): string {
    let current = 0;
    let total = 0;
    for (const layer of this.#layers.values()) {
      current += layer.current;
      total += layer.total;
    }
    return total === 0 ? '' : `${Math.min(100, Math.floor((100 * current) / total))}% of ${size(total)}`;
  }
}

function parse(line: string): z.output<typeof event> | undefined {
  try {
    return event.safeParse(JSON.parse(line)).data;
  } catch {
    // A partial or non-standard line: the end of the pull reports the result.
    return undefined;
  }
}

function size(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  if (bytes >= 1e6) return `${Math.round(bytes / 1e6)} MB`;
  return `${Math.ceil(bytes / 1e3)} kB`;
}
