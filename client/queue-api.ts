/** The tool's client of the queue API: one attempt per call, refusals as CapstanError. */
import { CapstanError, codeOfStatus } from '../lib/errors.ts';
import { parseExact } from '../lib/exact-json.ts';
import { certificateProblem } from './certificate-trust.ts';

/** A job as GET /requests and /status show it. */
export interface JobStatus {
  readonly id: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
  readonly delayTime?: number;
  readonly executionTime?: number;
  readonly retries?: number;
  readonly workerId?: string;
  readonly queueReason?: string;
}

export interface JobPage {
  readonly requests: readonly JobStatus[];
  readonly total: number;
  readonly offset: number;
  readonly limit: number;
}

export class QueueApi {
  readonly #base: string;
  readonly #key: string;

  /** `base` is `http://host:port/v2/<endpoint id>`. */
  constructor(base: string, key: string) {
    this.#base = base;
    this.#key = key;
  }

  async call<T>(method: 'GET' | 'POST', path: string): Promise<T> {
    const response = await fetch(this.#base + path, { method, headers: { authorization: `Bearer ${this.#key}` } }).catch(
      (cause: unknown) => {
        const { origin } = new URL(this.#base);
        throw certificateProblem(origin, cause) ?? new CapstanError('UNAVAILABLE', `the gateway at ${origin} does not respond`, { cause });
      },
    );
    const text = await response.text();
    if (response.ok) return parseExact(text) as T;
    throw new CapstanError(codeOfStatus(response.status), detailOf(text) ?? `${method} ${path} failed with status ${response.status}`);
  }
}

/** The detail of a problem document, without its leading title. */
function detailOf(text: string): string | null {
  try {
    const { detail, title } = JSON.parse(text) as { readonly detail?: unknown; readonly title?: unknown };
    if (typeof detail !== 'string') return null;
    const prefix = typeof title === 'string' ? `${title.toLowerCase()}: ` : '';
    return detail.startsWith(prefix) ? detail.slice(prefix.length) : detail;
  } catch {
    return null; // not a problem document: the status is all there is to report
  }
}
