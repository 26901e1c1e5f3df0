/**
 * The agent's side of `transport.ts`: connects to the given address and answers every request with a short head, in one
 * of the two ways.
 */
import { credentials, type ClientDuplexStream } from '@grpc/grpc-js';

import {
  InvokeServiceClient,
  type AgentFrame,
  type InvokeFromAgent,
  type InvokeFromGateway,
} from '../../../proto/gen/capstan/v1/invoke.ts';

type Stream = ClientDuplexStream<InvokeFromAgent, InvokeFromGateway>;

const ANSWER = Buffer.from(JSON.stringify({ status: 'healthy', service: 'bench', version: '1.0.0' }));
const HEADERS = [
  { name: 'content-type', value: 'application/json; charset=utf-8' },
  { name: 'content-length', value: String(ANSWER.length) },
];

const [address = '', way = '', parked = '0'] = process.argv.slice(2);
const client = new InvokeServiceClient(address, credentials.createInsecure(), { 'grpc-node.flow_control_window': 8 * 1024 * 1024 });

function answerTo(request: number): AgentFrame {
  return { request, frame: { $case: 'head', value: { status: 200, headers: HEADERS, body: ANSWER, ended: true } } };
}

/** The gateway's end is the bench itself, which needs no error report. */
function ended(): void {
  process.exit(0);
}

/** One stream for all requests, by number. One message carries all responses of one turn of the event loop. */
function multiplex(): void {
  const stream: Stream = client.invoke();
  let frames: AgentFrame[] = [];
  stream.on('error', ended);
  stream.on('data', (message: InvokeFromGateway) => {
    if (frames.length === 0) {
      setImmediate(() => {
        stream.write({ frames });
        frames = [];
      });
    }
    for (const { request } of message.frames) frames.push(answerTo(request));
  });
  // Headers are sent only with the first message.
  stream.write({ frames: [] });
}

/** A stream that waits for one request, answers it and ends. Another stream replaces it. */
function park(): void {
  const stream: Stream = client.invoke();
  stream.on('error', ended);
  stream.once('data', (message: InvokeFromGateway) => {
    park();
    stream.write({ frames: [answerTo(message.frames[0]?.request ?? 0)] });
    stream.end();
  });
  stream.write({ frames: [] });
}

if (way === 'multiplexed') multiplex();
else for (let n = 0; n < Number(parked); n += 1) park();
process.once('disconnect', ended);
