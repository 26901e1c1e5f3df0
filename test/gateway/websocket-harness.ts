/** A gateway with a load-balanced endpoint, and WebSockets of callers as bytes. */
import type { ExecutionContext } from 'ava';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { until } from '../support/until.ts';
import { FakeAgent, type Taken } from './fake-agent.ts';
import { KEY, OPERATOR_KEY, RawConnection } from './harness.ts';
import { setupLb, type LbSetup } from './lb-harness.ts';

export const OWN = 'own.lb.localhost';
export const NONCE = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
export const AUTHORIZED = `Authorization: Bearer ${KEY}`;

export interface Handshake {
  readonly line?: string;
  readonly host?: string;
  /** Instead of the key in a header. */
  readonly lines?: readonly string[];
  readonly nonce?: string;
  readonly after?: string;
}

interface LbGateway extends LbSetup {
  readonly agent: FakeAgent;
  open(handshake?: Handshake): RawConnection;
}

/** An endpoint `own` whose workers listen themselves, and that says 101 to whoever asks. */
export async function lbGateway(t: ExecutionContext, settings: Record<string, unknown> = {}, slots = 64): Promise<LbGateway> {
  const made = await setupLb(t, settings);
  made.scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED);
  const agent = new FakeAgent(t, made.invokeAddress).serve('own', { s1: slots });
  agent.onRequest = (taken) => switchTo(taken);
  const known = async (): Promise<boolean> => (await made.call('POST', '/', { headers: { host: OWN }, key: 'none' })).status === 401;
  await until('the endpoint is known', known);
  const open: LbGateway['open'] = ({
    line = 'GET /chat?x=1 HTTP/1.1',
    host = OWN,
    lines = [AUTHORIZED],
    nonce = NONCE,
    after = '',
  } = {}) => {
    const head = [line, `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', nonce, ...lines];
    const sent = `${head.filter((each) => each !== '').join('\r\n')}\r\n\r\n${after}`;
    return new RawConnection(t, made.gateway.url).write(Buffer.from(sent, 'latin1'));
  };
  return { ...made, agent, open };
}

export function switchTo({ send }: Taken, headers: Readonly<Record<string, string>> = {}, bytes: Buffer = Buffer.alloc(0)): void {
  const named = Object.entries(headers).map(([name, value]) => ({ name, value }));
  send({ $case: 'head', value: { status: 101, headers: named, body: bytes, ended: false } });
}

/** An unmasked frame of a server. */
export function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  if (length < 126) return Buffer.concat([Buffer.from([first, length]), payload]);
  const long = Buffer.alloc(10);
  long[0] = first;
  long[1] = 127;
  long.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([long, payload]);
}

export const text = (payload: string): Buffer => frame(0x81, Buffer.from(payload));

export async function opened(connection: RawConnection): Promise<string> {
  const head = await until('the response has a head', () => /^[^]*?\r\n\r\n/.exec(connection.text)?.[0]);
  if (!head.startsWith('HTTP/1.1 101 ')) throw new Error(connection.text);
  return head;
}

/** Everything after the head. */
export const after = (connection: RawConnection): Buffer => Buffer.from(connection.text.replace(/^[^]*?\r\n\r\n/, ''), 'latin1');

/** The code of a Close frame that is all there is after `bytes`; undefined when there is none. */
export async function closed(connection: RawConnection, bytes: Buffer = Buffer.alloc(0)): Promise<number | undefined> {
  await connection.closed;
  const rest = after(connection);
  if (!rest.subarray(0, bytes.length).equals(bytes)) throw new Error(`unexpected bytes: ${rest.toString('latin1')}`);
  const last = rest.subarray(bytes.length);
  if (last.length === 0) return undefined;
  if (last[0] !== 0x88 || last[1] !== last.length - 2) throw new Error(`no Close frame: ${last.toString('hex')}`);
  return last.readUInt16BE(2);
}

export const metrics = async ({ call }: LbGateway): Promise<string> =>
  (await call('GET', '/metrics?part=gateway', { key: OPERATOR_KEY, headers: { host: 'localhost' } })).text;

export const headersOf = ({ begin }: Taken): Map<string, string> => new Map(begin.headers.map(({ name, value }) => [name, value]));
