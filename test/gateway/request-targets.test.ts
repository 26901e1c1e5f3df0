/** Which host a request is for: absolute targets, Host headers that say something else, names with a dot at their end. */
import test from 'ava';

import { FakeAgent } from './fake-agent.ts';
import { KEY, RawConnection } from './harness.ts';
import { setupLb } from './lb-harness.ts';

test('the authority of an absolute target is the host, and a dot at the end of a name does not count', async (t) => {
  const { gateway, invokeAddress, scheduler } = await setupLb(t);
  scheduler.addEndpoint('ep');
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = ({ begin, answer }) => {
    const host = begin.headers.filter(({ name }) => name === 'host').map(({ value }) => value);
    const text = JSON.stringify({ host, authority: begin.authority, target: begin.target });
    answer(200, text, { 'content-length': String(Buffer.byteLength(text)) });
  };
  const connection = new RawConnection(t, gateway.url);
  const ask = async (target: string, host: string): Promise<{ status: number; body: unknown }> => {
    connection.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    const answer = await connection.answer();
    return { status: answer?.status ?? 0, body: JSON.parse(answer?.body ?? 'null') };
  };
  const served = (host: string, target = '/fn') => ({ status: 200, body: { host: [host], authority: host, target } });
  for (const host of ['web.lb.localhost', 'web.lb.localhost.', 'WEB.LB.localhost.:8080', 'web.lb.localhost:8080']) {
    t.deepEqual(await ask('/fn', host), served(host), host);
    t.deepEqual(await ask(`http://${host}/fn`, 'other.lb.localhost'), served(host), host);
    t.deepEqual(await ask(`HTTP://${host}/fn?a=/b`, 'localhost'), served(host, '/fn?a=/b'), host);
  }
  // The other way round: a Host that names the endpoint does not make it the endpoint's.
  t.is((await ask('http://localhost/fn', 'web.lb.localhost')).status, 404);
  t.is((await ask('http://localhost/v2/ep/health', 'web.lb.localhost')).status, 200);
  t.is((await ask('http://other.lb.localhost/fn', 'web.lb.localhost')).status, 404);
  t.is((await ask('/fn', 'web.lb.localhost..')).status, 404);
  t.is((await ask('http://web.lb.localhost', 'x')).status, 404, 'the route /');
  for (const target of ['ftp://web.lb.localhost/fn', 'http:///fn', 'http://user@web.lb.localhost/fn', 'http://web.lb.localhost:x/fn']) {
    const refused = await new RawConnection(t, gateway.url)
      .write(`GET ${target} HTTP/1.1\r\nHost: web.lb.localhost\r\nAuthorization: Bearer ${KEY}\r\n\r\n`)
      .answer();
    t.is(refused?.status, 400, target);
  }
});
