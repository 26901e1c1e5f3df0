/**
 * What changes at endpoints, over one stream for all tabs of a browser: the tab that holds a lock reads it and tells the others. When
 * that tab closes, another one gets the lock. Where a browser has no locks (pages without TLS), pages poll.
 */
import { expectSigns, isStale, noteAlive, noteAway } from './freshness.ts';
import { BASE_PATH, checkSession } from './request.ts';

export interface Activity {
  readonly id: string;
  readonly inQueue: number;
  readonly inProgress: number;
  readonly submitted: number;
  readonly completed: number;
  readonly failed: number;
  readonly workers: Readonly<Record<string, number>>;
}

export interface Change {
  /** `all`: whatever was known before may be outdated. */
  readonly kind: 'all' | 'change';
  readonly endpoints: readonly Activity[];
  readonly removed: readonly string[];
}

/** `stale`: nothing is known of changes; `refused`: the session may have ended. */
type Message = Change | { readonly kind: 'alive' } | { readonly kind: 'stale'; readonly reason: string } | { readonly kind: 'refused' };

const LOCK = 'capstan-events';
/** A stream on which nothing comes for this long is opened anew, ms: the gateway sends something at least every 1.5 s. */
const SILENCE_MS = 5_000;
const RETRY_MS = 1_000;

const listeners = new Set<(change: Change) => void>();
let stop: (() => void) | undefined;

/** Whether changes arrive, so that nothing has to be polled for them. */
export function isLive(): boolean {
  return stop !== undefined && !isStale();
}

/** Calls the listener with each change. Returns the function that removes it. */
export function onChange(listener: (change: Change) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Begins to follow changes, for this session. */
export function startEvents(): void {
  if (stop !== undefined || !('locks' in navigator)) return;
  const abort = new AbortController();
  const channel = new BroadcastChannel(`${LOCK} ${BASE_PATH}`);
  const hear = (message: Message): void => {
    if (message.kind === 'refused') {
      void checkSession();
      return;
    }
    if (message.kind === 'stale') {
      noteAway(message.reason);
      return;
    }
    noteAlive();
    if (message.kind !== 'alive') for (const listener of listeners) listener(message);
  };
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => hear(data));
  const tell = (message: Message): void => {
    hear(message);
    channel.postMessage(message);
  };
  navigator.locks
    .request(`${LOCK} ${BASE_PATH}`, { signal: abort.signal }, () => follow(tell, abort.signal))
    .catch((error: unknown) => {
      if (!abort.signal.aborted) throw error;
    });
  const expectNoMore = expectSigns();
  stop = () => {
    abort.abort();
    channel.close();
    expectNoMore();
    stop = undefined;
  };
}

export function stopEvents(): void {
  stop?.();
}

/** Reads the stream, again after each of its ends, until the session ends. */
async function follow(tell: (message: Message) => void, signal: AbortSignal): Promise<void> {
  let last: string | undefined;
  while (!signal.aborted) {
    const silence = new Silence();
    const begunAt = performance.now();
    try {
      const headers = { 'capstan-console': BASE_PATH.replace(/\/$/, ''), ...(last === undefined ? {} : { 'last-event-id': last }) };
      const init = { headers, signal: AbortSignal.any([signal, silence.signal]), credentials: 'same-origin', cache: 'no-store' } as const;
      const response = await fetch(`${BASE_PATH}api/events`, init);
      if (response.status === 401) {
        tell({ kind: 'refused' });
        return;
      }
      if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
      for await (const { id, message } of eventsOf(response.body)) {
        silence.reset();
        last = id ?? last;
        tell(message);
      }
    } catch {
      if (!signal.aborted)
        tell({ kind: 'stale', reason: silence.signal.aborted ? 'The gateway does not respond.' : 'The gateway cannot be reached.' });
    } finally {
      silence.end();
    }
    // A gateway that closes ends its streams, and another one may serve at once.
    if (performance.now() - begunAt < RETRY_MS || isStale()) await new Promise((wake) => setTimeout(wake, RETRY_MS));
  }
}

/** Aborts when it is not reset in time. */
class Silence {
  readonly #abort = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.reset();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  reset(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(), SILENCE_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

interface Event {
  readonly id: string | undefined;
  readonly message: Message;
}

/** Reads server-sent events, and comments as signs of life. */
async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      yield eventOf(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function eventOf(block: string): Event {
  const fields = new Map(
    block.split('\n').map((line) => {
      const at = line.indexOf(': ');
      return [line.slice(0, Math.max(at, 0)), line.slice(at + 2)] as const;
    }),
  );
  const kind = fields.get('event');
  const data = fields.get('data');
  if (kind === 'stale' && data !== undefined) return { id: undefined, message: { kind, ...(JSON.parse(data) as { reason: string }) } };
  if ((kind !== 'all' && kind !== 'change') || data === undefined) return { id: undefined, message: { kind: 'alive' } };
  return { id: fields.get('id'), message: { kind, ...(JSON.parse(data) as Omit<Change, 'kind'>) } };
}
