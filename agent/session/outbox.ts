/** Gathers what one turn of the event loop has to say into as few messages as the size limit allows. */
import { AgentEvent, type AgentMessage } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Payload } from '../../proto/gen/capstan/v1/common.ts';

/** A new message begins at this size, bytes (docs/architecture.md, Bodies). */
const BATCH_BYTES = 1024 * 1024;
/** Allowance for the fields of a small event. */
const EVENT_BYTES = 256;

export class Outbox {
  readonly #write: (message: AgentMessage) => void;
  #events: AgentEvent[] = [];
  #bytes = 0;
  #scheduled = false;

  constructor(write: (message: AgentMessage) => void) {
    this.#write = write;
  }

  push(event: AgentEvent): void {
    const bytes = sizeOf(event);
    if (this.#bytes + bytes > BATCH_BYTES) this.flush();
    this.#events.push(event);
    this.#bytes += bytes;
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.flush();
    });
  }

  flush(): void {
    if (this.#events.length === 0) return;
    const events = this.#events;
    this.#events = [];
    this.#bytes = 0;
    this.#write({ events });
  }

  /** Forgets what was not written: the session is over. */
  clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

/** About how large an event is on the wire; exact for the rare large kinds. */
function sizeOf({ event }: AgentEvent): number {
  switch (event?.$case) {
    case 'ended':
      return EVENT_BYTES + payloadBytes(event.value.output) + event.value.error.length * 3;
    case 'chunk':
    case 'progress':
      return EVENT_BYTES + payloadBytes(event.value.data);
    case 'hello':
    case 'workers':
    case 'inventory':
    case 'logs':
      return AgentEvent.encode({ event }).finish().length;
    case 'refused':
      return EVENT_BYTES + event.value.detail.length * 3;
    case 'started':
    case 'heartbeat':
    case undefined:
      return EVENT_BYTES;
    default:
      return EVENT_BYTES;
  }
}

function payloadBytes(payload: Payload | undefined): number {
  return payload?.body?.$case === 'inline' ? payload.body.value.length : 64;
}
