/** The forwarding thread: receives batches of lines, and answers each with its outcome. */
import { parentPort, workerData } from 'node:worker_threads';

import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';

import { exportFailure } from '../../../lib/telemetry/export-failure.ts';
import { openLogExporter } from '../../../lib/telemetry/open-log-exporter.ts';
import type { OtlpProtocol } from '../../../lib/telemetry/otlp-protocol.ts';
import type { SendOutcome } from './forward-queue.ts';
import { recordOf, type ForwardedLine, type RecordOrigin } from './log-record.ts';

export interface ThreadData {
  readonly protocol: OtlpProtocol;
  /** Attributes of the resource. */
  readonly resource: Readonly<Record<string, string>>;
  readonly version: string;
}

/** `ready`: sent once, when the thread accepts batches. */
export type ThreadMessage = SendOutcome | { readonly kind: 'ready' };

const send = (message: ThreadMessage): void => parentPort?.postMessage(message);

const { protocol, resource, version } = workerData as ThreadData;
const origin: RecordOrigin = {
  resource: defaultResource().merge(resourceFromAttributes(resource)),
  instrumentationScope: { name: 'capstan.worker', version },
};
const exporter = await openLogExporter(protocol);
send({ kind: 'ready' });

parentPort?.on('message', (lines: readonly ForwardedLine[]) => {
  exporter.export(
    lines.map((line) => recordOf(line, origin)),
    // ExportResultCode.SUCCESS is 0.
    ({ code, error }) => send(code === 0 ? { kind: 'sent' } : { kind: 'failed', reason: exportFailure(error, protocol === 'grpc') }),
  );
});
