/** The functions of a load-balanced endpoint in their worker: each request calls the function of its route. */
import { NumberOutOfRange, parseExact } from '../../../../../lib/exact-json.ts';
import { AttemptProcesses } from '../../../hosted/attempt-processes.ts';
import type { HttpFromHost, HttpToHost, LoadSpec } from '../../../host-protocol.ts';
import { HTTP_WINDOW_BYTES, STOP_GRACE_MS } from '../../../runtime.ts';
import { firstValue } from '../call/arguments.ts';
import { findOpenTelemetry, traceOfHeaders, withTrace } from '../call/current-trace.ts';
import { loadHandler, type Handler } from '../call/module.ts';
import { errorMessage, errorStack } from '../call/output.ts';
import { signatureOf } from '../call/signature.ts';
import { withWork } from '../call/stopping.ts';
import { schemaProblems, Unfit } from '../call/unfit.ts';
import type { OutputCapture } from '../call/thread-output.ts';
import { answerOf, errorAnswer, type Answer } from './answer.ts';
import { RequestBody } from './body.ts';
import { boundedHeaders } from './bounded-headers.ts';
import { FunctionWebSocket, SocketClosed } from './websocket.ts';
import { BadRequest, httpArguments, httpSignature, type HttpSignature, type RequestValues } from './parameters.ts';

type Message =
  | Extract<HttpFromHost, { t: 'http-credit' | 'http-failed' }>
  | (Extract<HttpFromHost, { t: 'http-head' | 'http-body' }> & { readonly bytes: Uint8Array });

export type Post = (message: Message) => void;

interface Loaded {
  readonly handler: Handler;
  readonly signature: HttpSignature;
}

/** The argument for `ctx`, or after all others. */
export interface RequestContext {
  readonly endpointId: string;
  /** Aborted when the caller disconnects or the request times out. */
  readonly signal: AbortSignal;
}

/** The code of a Close frame after an error. */
const INTERNAL_ERROR = 1011;
const VERSION_HEADERS = [
  ['content-type', 'application/json; charset=utf-8'],
  ['sec-websocket-version', '13'],
] as const;
/** Largest part of a response, bytes. */
const PART_BYTES = 64 * 1024;
/** A new one each time: posting transfers the bytes to the other thread. */
const nothing = (): Uint8Array => new Uint8Array();

interface Call {
  readonly body: RequestBody;
  readonly abort: AbortController;
  /** Bytes of the response that may be sent. */
  window: number;
  wake: (() => void) | undefined;
  /** Its last message has left, or is about to. */
  isOver: boolean;
  /** What a function that goes on after its request was stopped had started is being ended. */
  ending: Promise<void> | undefined;
}

type Begin = Extract<HttpToHost, { t: 'http' }>;

export class HttpFunctions {
  readonly #endpointId: string;
  readonly #functions: ReadonlyMap<string, Loaded>;
  readonly #output: OutputCapture;
  readonly #post: Post;
  readonly #calls = new Map<string, Call>();
  /** Ends those of stopped requests; undefined where several requests run at a time. */
  readonly #processes: AttemptProcesses | undefined;

  private constructor(order: LoadSpec, functions: ReadonlyMap<string, Loaded>, output: OutputCapture, post: Post) {
    this.#endpointId = order.endpointId;
    this.#processes = AttemptProcesses.of(order);
    this.#functions = functions;
    this.#output = output;
    this.#post = post;
  }

  /** Loads every function. Throws an Error with a readable message. */
  static async load(order: LoadSpec, output: OutputCapture, post: Post): Promise<HttpFunctions> {
    const { folder, httpFunctions } = order;
    const functions = new Map<string, Loaded>();
    for (const spec of httpFunctions) {
      const handler = await loadHandler(folder, spec.module, spec.name);
      functions.set(spec.name, { handler, signature: httpSignature(spec, signatureOf(handler, spec)) });
    }
    findOpenTelemetry(folder);
    return new HttpFunctions(order, functions, output, post);
  }

  onFrame(frame: HttpToHost, bytes: Uint8Array): void {
    if (frame.t === 'http') {
      this.#begin(frame, bytes);
      return;
    }
    const call = this.#calls.get(frame.key);
    if (call === undefined) return;
    switch (frame.t) {
      case 'http-body':
        call.body.push(bytes, frame.ended);
        break;
      case 'http-credit':
        call.window += frame.count;
        call.wake?.();
        break;
      case 'http-abort': {
        const gone = new DOMException('the caller disconnected', 'AbortError');
        call.abort.abort(gone);
        call.body.fail(gone);
        call.wake?.();
        this.#endProcessesLater(call);
        break;
      }
    }
  }

  #begin(frame: Begin, bytes: Uint8Array): void {
    const { key } = frame;
    const grant = (count: number): void => this.#post({ t: 'http-credit', key, count });
    const call: Call = {
      body: new RequestBody(bytes, frame.ended, grant),
      abort: new AbortController(),
      window: HTTP_WINDOW_BYTES,
      wake: undefined,
      isOver: false,
      ending: undefined,
    };
    this.#calls.set(key, call);
    this.#processes?.begin();
    const run = (): Promise<void> => withTrace(traceOfHeaders(frame.headers), () => this.#run(frame, call));
    void withWork({ key, signal: call.abort.signal }, run).then(() => this.#calls.delete(key));
  }

  /** Serves one request to its end, including failures; never throws. */
  async #run(frame: Begin, call: Call): Promise<void> {
    const { key } = frame;
    let socket: FunctionWebSocket | undefined;
    let headSent = false;
    try {
      if (frame.upgrade === true) socket = this.#socketOf(frame, call);
      const answer = await this.#answer(frame, call, socket);
      if (socket?.isAccepted === true) {
        await this.#endSocket(key, call, socket);
        return;
      }
      headSent = true;
      await this.#send(key, answer, call);
    } catch (error) {
      if (!call.abort.signal.aborted && !(error instanceof SocketClosed)) this.#output.text('stderr', errorStack(error));
      this.#output.flush();
      const fail = (): Promise<void> => this.#postLast({ t: 'http-failed', key, message: errorMessage(error) }, call);
      if (socket?.isAccepted === true) await this.#endSocket(key, call, socket, error);
      else if (headSent) await fail();
      // A long message may be beyond the credit of a caller who is gone.
      else await this.#send(key, errorAnswer(500, 'Internal Server Error', errorMessage(error)), call).catch(fail);
    }
  }

  #socketOf(frame: Begin, call: Call): FunctionWebSocket {
    const { key } = frame;
    return new FunctionWebSocket({
      request: requestOf(frame, call),
      body: call.body,
      head: (headers) => this.#post({ t: 'http-head', key, status: 101, headers, ended: false, bytes: nothing() }),
      write: (bytes) => this.#write(key, bytes, call),
    });
  }

  /** The function has ended: so does its WebSocket. */
  async #endSocket(key: string, call: Call, socket: FunctionWebSocket, error?: unknown): Promise<void> {
    if (error === undefined || error instanceof SocketClosed) await socket.close();
    else await socket.close(INTERNAL_ERROR, errorMessage(error));
    await this.#postLast({ t: 'http-body', key, ended: true, bytes: nothing() }, call);
  }

  /** Posts the last message of a request. What the function of a stopped one left behind ends before the next one begins. */
  async #postLast(message: Message, call: Call): Promise<void> {
    call.isOver = true;
    if (call.abort.signal.aborted) {
      await call.ending;
      await this.#processes?.end();
    }
    this.#post(message);
  }

  /** A function may wait for what it started, and not listen to its signal. */
  #endProcessesLater(call: Call): void {
    const processes = this.#processes;
    if (processes === undefined) return;
    setTimeout(() => {
      if (!call.isOver) call.ending = processes.end();
    }, STOP_GRACE_MS).unref();
  }

  async #answer(frame: Begin, call: Call, socket: FunctionWebSocket | undefined): Promise<Answer> {
    const fn = this.#functions.get(frame.function);
    if (fn === undefined) return errorAnswer(404, 'Not Found', `the worker has no function ${frame.function}`);
    const given: { first?: unknown } = {};
    try {
      const context: RequestContext = { endpointId: this.#endpointId, signal: call.abort.signal };
      const { handler, signature } = fn;
      if (socket !== undefined && headerOf(frame, 'sec-websocket-version') !== '13')
        return { ...errorAnswer(426, 'Upgrade Required', 'Sec-WebSocket-Version: must be 13'), headers: VERSION_HEADERS };
      const values = await valuesOf(frame, call, signature);
      const taken = httpArguments(signature, values, { request: () => requestOf(frame, call), socket, context });
      given.first = firstValue(signature, taken);
      const result = await handler(...taken);
      return await answerOf(result, headerOf(frame, 'accept'));
    } catch (error) {
      if (error instanceof BadRequest) return errorAnswer(400, 'Bad Request', error.message);
      if (error instanceof Response) return answerOf(error, '');
      const places = error instanceof Unfit ? error.places : schemaProblems(error, given.first);
      if (places !== undefined) return errorAnswer(422, 'Unprocessable Content', errorMessage(error), places);
      throw error;
    }
  }

  async #send(key: string, { status, headers, bytes, rest }: Answer, call: Call): Promise<void> {
    const fits = rest === undefined && bytes.length <= PART_BYTES;
    if (fits) {
      const sized = headers.some(([name]) => name === 'content-length') || status === 204 || status === 304;
      const all = sized ? headers : [...headers, ['content-length', String(bytes.length)] as const];
      await this.#postLast({ t: 'http-head', key, status, headers: boundedHeaders(all), ended: true, bytes: new Uint8Array(bytes) }, call);
      return;
    }
    const all = rest === undefined ? [...headers, ['content-length', String(bytes.length)] as const] : headers;
    this.#post({ t: 'http-head', key, status, headers: boundedHeaders(all), ended: false, bytes: nothing() });
    try {
      await this.#write(key, bytes, call);
      for (let step = await rest?.next(); step !== undefined && step.done !== true; step = await rest?.next()) {
        await this.#write(key, step.value, call);
      }
    } catch (error) {
      // Runs the generator's `finally` blocks; their errors do not replace the response's outcome.
      await Promise.resolve(rest?.return?.()).catch(() => undefined);
      throw error;
    }
    await this.#postLast({ t: 'http-body', key, ended: true, bytes: nothing() }, call);
  }

  /** Sends parts within the caller's credit. */
  async #write(key: string, bytes: Uint8Array, call: Call): Promise<void> {
    for (let at = 0; at < bytes.length; at += PART_BYTES) {
      while (call.window <= 0 && !call.abort.signal.aborted) {
        const { promise, resolve } = Promise.withResolvers<void>();
        call.wake = resolve;
        await promise;
        call.wake = undefined;
      }
      call.abort.signal.throwIfAborted();
      // A copy: posting transfers the bytes to the other thread.
      const part = new Uint8Array(bytes.subarray(at, at + PART_BYTES));
      call.window -= part.length;
      this.#post({ t: 'http-body', key, ended: false, bytes: part });
    }
  }
}

async function valuesOf(frame: Begin, { body }: Call, { takesRequest }: HttpSignature): Promise<RequestValues> {
  const at = frame.url.indexOf('?');
  const query = new URLSearchParams(at === -1 ? '' : frame.url.slice(at + 1));
  const values = { path: frame.pathValues, query, body: undefined };
  if (takesRequest || frame.upgrade === true || body.isEmpty) return values;
  const encoding = headerOf(frame, 'content-encoding').toLowerCase();
  if (encoding !== '' && encoding !== 'identity')
    throw new BadRequest('Content-Encoding: must be absent; a function that takes the raw request may decode its body');
  let text: string;
  try {
    text = await body.text();
  } catch (error) {
    if (error instanceof TypeError) throw new BadRequest('body: must be UTF-8 text');
    throw error;
  }
  if (text.trim() === '') return values;
  try {
    return { ...values, body: parseExact(text) };
  } catch (error) {
    throw new BadRequest(error instanceof NumberOutOfRange ? `body: ${error.message}` : 'body: must be JSON');
  }
}

function requestOf(frame: Begin, { body, abort }: Call): Request {
  const { method, url, headers } = frame;
  const hasBody = method !== 'GET' && method !== 'HEAD' && !body.isEmpty;
  const init = { method, headers: headers.map(([name, value]): [string, string] => [name, value]), signal: abort.signal };
  return new Request(url, hasBody ? { ...init, body: body.stream(), duplex: 'half' } : init);
}

function headerOf(frame: Begin, wanted: string): string {
  return frame.headers.find(([name]) => name === wanted)?.[1] ?? '';
}
