/** Sizes of an agent's events, so that messages with several events stay within limits (docs/borders.md, Bodies). */
import { messageBytes } from '../../lib/payload.ts';
import { AgentEvent } from '../../proto/gen/capstan/v1/nodes.ts';

/** Allowance for the fields of a small event. */
const EVENT_BYTES = 256;

/** Returns the approximate size of an event on the wire; exact for the rare large kinds. */
export function eventBytes({ event }: AgentEvent): number {
  switch (event?.$case) {
    case 'ended':
      return EVENT_BYTES + messageBytes(event.value.output) + event.value.error.length * 3;
    case 'chunk':
    case 'progress':
      return EVENT_BYTES + messageBytes(event.value.data);
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
