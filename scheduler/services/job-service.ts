/** JobService: gateways' streams of submissions and waits, and the unary calls. */
import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';

import { BatchWriter } from '../../lib/batches.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';
import type {
  JobReplies,
  JobReply,
  JobRequest,
  JobRequests,
  JobServiceServer,
  ListJobsRequest,
  Submit,
} from '../../proto/gen/capstan/v1/jobs.ts';
import { toStatus } from '../../lib/grpc-errors.ts';
import { fromPayloadMessage, messageBytes } from '../../lib/payload.ts';
import { readServerStream } from '../../lib/stream-guard.ts';
import type { BodyRemover } from '../blobs/body-remover.ts';
import { isBodyId } from '../../lib/body-id.ts';
import type { Counting, Ref } from '../core/events.ts';
import { places } from '../core/control/encryption.ts';
import { failureReply } from '../core/jobs/views.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { Cipher } from '../secrets/cipher.ts';
import type { WebhookUrls } from '../webhooks/urls.ts';
import type { Authorizer } from './auth.ts';
import { unary } from './calls.ts';
import { JobCalls } from './job-calls.ts';
import { countingOf, readEvent, submitEvent, type SubmitEvent } from './job-requests.ts';

type ChannelCall = ServerDuplexStream<JobRequests, JobReplies>;

export interface JobChannelDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly cipher: Cipher;
  readonly clock: Clock;
  readonly log: EngineLog;
  readonly urls: WebhookUrls;
  readonly bodies: Pick<BodyRemover, 'drop' | 'keep'>;
}

/** The open channels of gateways, and the service that opens them. */
export class JobChannels {
  readonly #channels = new Map<number, { readonly call: ChannelCall; readonly writer: BatchWriter<JobReply> }>();
  readonly #engine: Engine;
  readonly #auth: Authorizer;
  readonly #cipher: Cipher;
  readonly #log: EngineLog;
  readonly #calls: JobCalls;
  readonly #urls: WebhookUrls;
  readonly #bodies: JobChannelDeps['bodies'];
  #next = 1;

  constructor({ engine, auth, cipher, clock, log, urls, bodies }: JobChannelDeps) {
    this.#engine = engine;
    this.#auth = auth;
    this.#cipher = cipher;
    this.#calls = new JobCalls(engine, clock);
    this.#log = log;
    this.#urls = urls;
    this.#bodies = bodies;
  }

  /** Sends a reply on a channel. Has no effect if the channel is closed (its requests are sent again on another). */
  reply(channel: number, reply: JobReply): void {
    this.#channels.get(channel)?.writer.add(reply, replyBytes(reply));
  }

  /** Number of open channels. */
  get size(): number {
    return this.#channels.size;
  }

  closeAll(reason: CapstanError): void {
    for (const { call, writer } of this.#channels.values()) {
      writer.flush();
      call.emit('error', toStatus(reason));
    }
    this.#channels.clear();
  }

  service(): JobServiceServer {
    const gateway = <Request, Reply>(name: string, handler: (request: Request) => Promise<Reply> | Reply) =>
      unary<Request, Reply>(this.#log, name, (request, metadata) => {
        this.#auth.gateway(metadata);
        return handler(request);
      });
    return {
      channel: (call) => this.#open(call),
      cancel: gateway('Cancel', ({ endpointId, jobId, limitedAs }) => this.#calls.cancel(endpointId, jobId, limitedAs !== 'none')),
      retry: gateway('Retry', ({ endpointId, jobId }) => this.#calls.retry(endpointId, jobId)),
      purgeQueue: gateway('PurgeQueue', async ({ endpointId }) => ({ removed: await this.#calls.purgeQueue(endpointId, true) })),
      listJobs: gateway('ListJobs', (request: ListJobsRequest) => this.#calls.listCounted(request)),
      getHealth: gateway('GetHealth', ({ endpointId }) => this.#calls.health(endpointId)),
    } satisfies JobServiceServer;
  }

  #open(call: ChannelCall): void {
    try {
      this.#auth.gateway(call.metadata);
      // During take-over no request gets a reply: the gateway tries again.
      this.#engine.requireOwner();
    } catch (error) {
      call.emit('error', toStatus(error));
      return;
    }
    // A client that hears that its channel is read sends none of it again as if it were not.
    call.sendMetadata(new Metadata());
    const channel = this.#next++;
    const writer = new BatchWriter<JobReply>((replies) => call.write({ replies }), { later: queueMicrotask });
    this.#channels.set(channel, { call, writer });
    readServerStream<JobRequests>(
      call,
      { name: 'JobService.Channel', log: this.#log, facts: { channel } },
      {
        onMessage: ({ requests }) => {
          for (const request of requests) this.#handle(channel, request);
        },
        onClosed: () => {
          if (this.#channels.delete(channel)) this.#engine.handle({ kind: 'channel-closed', channel });
        },
      },
    );
  }

  #handle(channel: number, request: JobRequest): void {
    const ref = { channel, request: request.requestId };
    const { endpointId: endpoint, operation } = request;
    const counting = countingOf(request);
    switch (operation?.$case) {
      case 'submit':
        return this.#submit(ref, counting, endpoint, operation.value);
      case 'get':
      case 'stream':
        return this.#engine.handle(readEvent(ref, counting, endpoint, operation));
      case 'abandon':
        return this.#engine.handle({ kind: 'abandon', ref: { channel, request: operation.value } });
      case undefined:
        this.reply(channel, failureReply(request.requestId, new CapstanError('INVALID_ARGUMENT', 'the request has no operation')));
    }
  }

  #submit(ref: Ref, counting: Counting, endpoint: string, submit: Submit): void {
    const input = fromPayloadMessage(submit.input);
    if (input === undefined || submit.jobId === '') {
      this.reply(ref.channel, failureReply(ref.request, new CapstanError('INVALID_ARGUMENT', 'input: is required', { field: 'input' })));
      return;
    }
    if ('blob' in input && !isBodyId(input.blob.id)) {
      const error = new CapstanError('INVALID_ARGUMENT', 'input: refers to a body that is not in the blob store', { field: 'input' });
      this.reply(ref.channel, failureReply(ref.request, error));
      return;
    }
    const account = this.#engine.image?.endpoints.get(endpoint)?.config.account ?? '';
    const refusal = submit.webhook === '' ? null : this.#urls.refusal(submit.webhook, account);
    if (refusal !== null) {
      const error = new CapstanError('INVALID_ARGUMENT', `webhook: ${refusal}`, { field: 'webhook' });
      if ('blob' in input) this.#bodies.drop([input.blob.id]);
      this.reply(ref.channel, failureReply(ref.request, error));
      return;
    }
    const event = submitEvent(submit, {
      ...{ ref, counting, endpoint, input },
      webhook: submit.webhook === '' ? null : this.#urls.kept(submit.webhook, submit.jobId),
      s3: submit.s3Config === undefined ? null : this.#cipher.encrypt(JSON.stringify(submit.s3Config), places.s3(submit.jobId)),
    });
    if (counting.resent && 'blob' in input) void this.#submitAgain(event, input.blob.id);
    else this.#engine.handle(event);
  }

  /** A job that was sent before may have been answered, run and deleted, with its body. */
  async #submitAgain(event: SubmitEvent, blob: string): Promise<void> {
    try {
      const isThere = await this.#bodies.keep(blob);
      // Its requests are sent again on another channel.
      if (!this.#channels.has(event.ref.channel)) return;
      if (isThere) {
        this.#engine.handle(event);
        return;
      }
      const gone = new CapstanError('NOT_FOUND', `job ${event.job} was submitted before, and its ttl or retention has expired`);
      this.reply(event.ref.channel, failureReply(event.ref.request, gone));
    } catch (error) {
      this.#log.error({ err: error }, 'looking up a body failed');
      const unavailable = new CapstanError('UNAVAILABLE', 'reading the store of bodies failed');
      this.reply(event.ref.channel, failureReply(event.ref.request, unavailable));
    }
  }
}

/** Decrypts the credentials of a job. */
export function openS3(cipher: Cipher, job: string, encrypted: Uint8Array): S3Config {
  // Older encrypted credentials lack the newer properties.
  return { more: '', json: '', ...(JSON.parse(cipher.decrypt(encrypted, places.s3(job))) as Omit<S3Config, 'more' | 'json'>) };
}

function replyBytes(reply: JobReply): number {
  switch (reply.result?.$case) {
    case 'job':
      return messageBytes(reply.result.value.output);
    case 'stream':
      return reply.result.value.chunks.reduce((sum, chunk) => sum + messageBytes(chunk), 0);
    default:
      return 0;
  }
}
