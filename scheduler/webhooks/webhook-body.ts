/** The body of a webhook, composed while it is sent: large payloads stay in the blob store. */
import { payloadBytes, type Payload } from '../../lib/payload.ts';
import type { ReadableBlob } from '../blobs/file-store.ts';
import { isDamaged } from '../core/ports/stored-payload.ts';
import type { DeliveryRow } from '../core/ports/store.ts';

/** The body of one delivery. */
export interface WebhookBody {
  /** Bytes. */
  readonly size: number;
  /** Returns the bytes from the beginning at each call. */
  pieces(): AsyncIterable<Uint8Array>;
}

/** Why the payload of a delivery cannot be sent; null if it can. Its envelope is damaged only together with its input. */
export function damageOfDelivery({ input, output }: DeliveryRow): string | null {
  if (isDamaged(input)) return `the input of the job is damaged in the store: ${input.damaged}`;
  return isDamaged(output) ? `the output of the job is damaged in the store: ${output.damaged}` : null;
}

/** A delivery whose payload is whole. */
export type WholeDelivery = DeliveryRow & { readonly input: Payload; readonly output: Payload | null };

export function isWhole(delivery: DeliveryRow): delivery is WholeDelivery {
  return damageOfDelivery(delivery) === null;
}

type OpenBlob = (id: string) => Promise<ReadableBlob>;

/** Returns the trace context of the delivery's job; empty without one. */
export function traceOfDelivery({ envelope }: DeliveryRow): string {
  return (JSON.parse(envelope) as { trace?: string }).trace ?? '';
}

/**
 * Returns the body with the decrypted URL of the delivery:
 * `{"id","status","input","output","error"?,"delayTime","executionTime","webhook"}`; input and output byte for byte.
 */
export function webhookBodyOf(delivery: WholeDelivery, url: string, open: OpenBlob): WebhookBody {
  const { id, status, trace: _trace, ...members } = JSON.parse(delivery.envelope) as { id: string; status: string; trace?: string };
  const rest = { ...members, webhook: url };
  const head = JSON.stringify({ id, status }).slice(0, -1);
  const tail = JSON.stringify(rest).slice(1);
  const parts: readonly Payload[] = [
    text(`${head},"input":`),
    delivery.input,
    text(',"output":'),
    delivery.output ?? text('null'),
    text(tail === '}' ? tail : `,${tail}`),
  ];
  return {
    size: parts.reduce((sum, part) => sum + payloadBytes(part), 0),
    async *pieces() {
      for (const part of parts) {
        if ('inline' in part) yield part.inline;
        else yield* blob(part.blob.id, open);
      }
    },
  };
}

async function* blob(id: string, open: OpenBlob): AsyncGenerator<Uint8Array> {
  const opened = await open(id);
  try {
    yield* opened.pieces;
  } finally {
    opened.close();
  }
}

function text(value: string): Payload {
  return { inline: Buffer.from(value) };
}
