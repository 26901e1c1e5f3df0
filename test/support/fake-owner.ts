/** A scheduler as clients see it while the queue changes owners: health, a term, NOT_OWNER, and calls that answer with its name. */
import {
  Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  status,
  type MethodDefinition,
  type ServerInterceptor,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from '@grpc/grpc-js';

import { BlobServiceService, type PutBlobRequest } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceService, type DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';

const bytes = (value: Buffer): Buffer => value;
const method = (path: string, responseStream: boolean): MethodDefinition<Buffer, Buffer> => ({
  path,
  requestStream: false,
  responseStream,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
});
const health = {
  check: method('/grpc.health.v1.Health/Check', false),
  watch: method('/grpc.health.v1.Health/Watch', true),
};

type Watcher = ServerWritableStream<Buffer, Buffer>;

export class FakeOwner {
  readonly name: string;
  /** What it says in `capstan-term`. */
  term: number | undefined;
  /** Says NOT_OWNER to every call but health. */
  isStandby = true;
  /** The owner that it names as a standby. */
  named: string | undefined;
  /** Its health says that it serves, whatever else it does. */
  isSureOfItself = false;
  /** Knows nobody: every call but health is UNAUTHENTICATED, without a term. */
  isStranger = false;
  /** Refuses every call but health: its caller was moved to this cell. */
  movedTo: string | undefined;
  /** Its cell. */
  cell = 'default';
  /** Is from before cells: its health knows none. Give it no term. */
  isEarlier = false;
  /** Answers nothing, as a stopped process. */
  isSilent = false;
  /** Credentials of every call that it was sent. */
  readonly credentials: string[] = [];
  /** Calls of each method, answered or not. */
  readonly calls: string[] = [];
  /** Called for each call of GetMetrics before it is answered. */
  onCall: () => void = () => undefined;
  /** Calls of its health service. */
  healthCalls = 0;
  address = '';
  readonly #watchers = new Set<Watcher>();
  readonly #held: (() => void)[] = [];
  #server: Server | undefined;

  constructor(name: string) {
    this.name = name;
  }

  static async start(name: string, values: Partial<Pick<FakeOwner, 'term' | 'isStandby' | 'named'>> = {}): Promise<FakeOwner> {
    const fake = Object.assign(new FakeOwner(name), values);
    await fake.listen();
    return fake;
  }

  async listen(host = '127.0.0.1'): Promise<void> {
    const server = new Server({ interceptors: [this.#interceptor()] });
    server.addService(health, {
      check: (call: ServerUnaryCall<Buffer, Buffer>, answer: (error: null, reply: Buffer) => void) =>
        this.#say(() => answer(null, this.#health(call.request))),
      watch: (call: Watcher) => {
        this.#watchers.add(call);
        call.on('cancelled', () => this.#watchers.delete(call));
        this.#say(() => call.write(this.#health(call.request)));
      },
    });
    server.addService(ControlServiceService, {
      ...Object.fromEntries(Object.keys(ControlServiceService).map((name) => [name, () => undefined])),
      getMetrics: (call: ServerUnaryCall<object, { text: string }>, answer: (error: null, reply: { text: string }) => void) => {
        this.#note('getMetrics', call.metadata);
        this.onCall();
        this.#say(() => answer(null, { text: this.name }));
      },
      watchDirectory: (call: ServerWritableStream<object, DirectoryUpdate>) => {
        this.#note('watchDirectory', call.metadata);
        this.#say(() => call.sendMetadata(new Metadata()));
        this.streams.add(call);
      },
    });
    server.addService(BlobServiceService, {
      ...Object.fromEntries(Object.keys(BlobServiceService).map((name) => [name, () => undefined])),
      put: (call: ServerReadableStream<PutBlobRequest, object>, answer: (error: null, reply: object) => void) => {
        const received: Buffer[] = [];
        this.puts.push(received);
        call.on('data', ({ part }: PutBlobRequest) =>
          received.push(part?.$case === 'data' ? Buffer.from(part.value) : Buffer.from('header')),
        );
        call.on('end', () => answer(null, { id: 'x', size: 0, existed: false, received: 0 }));
      },
    });
    const at = this.address === '' ? `${host}:0` : this.address;
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync(at, ServerCredentials.createInsecure(), (error, bound) => (error === null ? resolve(bound) : reject(error))),
    );
    this.address = `${host}:${port}`;
    this.#server = server;
  }

  /** Messages of each upload that reached it. */
  readonly puts: Buffer[][] = [];
  /** Open streams of WatchDirectory. */
  readonly streams = new Set<ServerWritableStream<object, DirectoryUpdate>>();

  get port(): string {
    return this.address.replace(/.*:/, '');
  }

  /** Becomes the owner, or a standby, and tells who watches its health. */
  own(isOwner: boolean, term = this.term): void {
    this.isStandby = !isOwner;
    this.term = term;
    for (const watcher of this.#watchers) watcher.write(this.#health(watcher.request));
  }

  /** Answers again, also what it was asked before. */
  wake(): void {
    this.isSilent = false;
    for (const say of this.#held.splice(0)) say();
  }

  /** Goes away at once, as a killed process does. `listen` brings it back on the same port. */
  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
    this.#watchers.clear();
    this.streams.clear();
  }

  #say(say: () => void): void {
    if (this.isSilent) this.#held.push(say);
    else say();
  }

  #health(asked: Buffer): Buffer {
    const service = asked.toString().slice(2);
    if (service !== '' && (this.isEarlier || service !== `capstan.cell.${this.cell}`)) return Buffer.from([0x08, 3]);
    return Buffer.from([0x08, this.isStandby && !this.isSureOfItself ? 2 : 1]);
  }

  #note(call: string, metadata: Metadata): void {
    this.calls.push(call);
    this.credentials.push(String(metadata.get('authorization')[0] ?? ''));
  }

  #interceptor(): ServerInterceptor {
    return ({ path }, call) =>
      new ServerInterceptingCall(call, {
        start: (next) =>
          next({
            onReceiveMetadata: (metadata, pass) => {
              if (path.startsWith('/grpc.health.')) this.healthCalls += 1;
              if (this.isStranger && !path.startsWith('/grpc.health.')) {
                call.sendStatus({ code: status.UNAUTHENTICATED, details: 'unknown caller', metadata: new Metadata() });
                return;
              }
              if (this.movedTo !== undefined && !path.startsWith('/grpc.health.')) {
                const said = new Metadata();
                said.set('capstan-error', this.isStandby ? 'NOT_OWNER' : 'CONFLICT');
                said.set('capstan-cell', this.movedTo);
                if (this.term !== undefined && !this.isStandby) said.set('capstan-term', String(this.term));
                call.sendStatus({
                  code: this.isStandby ? status.UNAVAILABLE : status.FAILED_PRECONDITION,
                  details: 'moved',
                  metadata: said,
                });
                return;
              }
              if (!this.isStandby || path.startsWith('/grpc.health.')) {
                pass(metadata);
                return;
              }
              this.#note('refused', metadata);
              const said = new Metadata();
              said.set('capstan-error', 'NOT_OWNER');
              if (this.named !== undefined) said.set('capstan-owner', this.named);
              this.#say(() => call.sendStatus({ code: status.UNAVAILABLE, details: 'a standby', metadata: said }));
            },
          }),
        sendMetadata: (metadata, next) => {
          if (this.term !== undefined && !this.isStandby) metadata.set('capstan-term', String(this.term));
          next(metadata);
        },
      });
  }
}
