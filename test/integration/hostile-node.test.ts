/** A node that joined with a valid token and then asserts what it was not given: it affects only what the scheduler placed on it. */
import { pino } from 'pino';
import test, { type ExecutionContext } from 'ava';
import { Agent } from 'undici';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/start.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { CallStyle, type FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { FakeAgent } from '../gateway/fake-agent.ts';
import { answerTo, type HttpAnswer } from '../support/http-answer.ts';
import { TestScheduler, type TestNode, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const fn: FunctionSpec = { name: 'fn', module: 'm.ts', parameters: [], callStyle: CallStyle.WHOLE };
const web = {
  kind: EndpointKind.LOAD_BALANCED,
  functions: [fn],
  routes: { 'GET /fn': 'fn' },
  maxConcurrency: 2,
};

interface World {
  readonly scheduler: TestScheduler;
  readonly lines: string[];
  call(endpoint: string): Promise<HttpAnswer>;
}

async function open(t: ExecutionContext): Promise<World> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const settings = {
    port: 0,
    scheduler: scheduler.handle.address,
    token: scheduler.secret('gateway-token'),
    closeGraceMs: 0,
    lbHoldMs: 500,
  };
  const gateway = await start(readConfig(settings, {}), { log });
  t.teardown(async () => gateway.close());
  const dispatcher = new Agent();
  t.teardown(async () => dispatcher.destroy());
  const headers = { authorization: `Bearer ${scheduler.secret('api-key')}` };
  const call: World['call'] = async (endpoint) => answerTo(`${gateway.url}/lb/${endpoint}/fn`, { method: 'GET', headers, dispatcher });
  return { scheduler, lines, call };
}

interface Joined {
  readonly node: TestNode;
  readonly session: TestSession;
  readonly agent: FakeAgent;
}

/** A node with its session and its stream to the gateway, by the token that the scheduler gave it. */
async function join(t: ExecutionContext, scheduler: TestScheduler, name: string): Promise<Joined> {
  const node = await scheduler.join(name);
  const session = node.session();
  for (;;) {
    const { gateways } = await session.take('gateways');
    const [gateway] = gateways;
    if (gateway === undefined) continue;
    const agent = new FakeAgent(t, gateway.address, node.id, gateway.token);
    return { node, session, agent };
  }
}

test('a node that announces an endpoint it was not given gets none of its requests, and is logged once', async (t) => {
  const { scheduler, lines, call } = await open(t);
  const { endpoints } = await scheduler.deploy([{ ...web, name: 'victim', workersMax: 1 }]);
  const victim = endpoints[0]?.id ?? '';
  const honest = await join(t, scheduler, 'honest');
  const waiting = until('the honest node serves', async () => (await call(victim)).status === 200);
  const [worker] = await honest.session.bringUp();
  const release = worker?.releaseId ?? '';
  honest.agent.onRequest = ({ answer }) => answer(200, 'honest');
  honest.agent.announceWorkers([{ workerId: worker?.workerId ?? '', endpointId: victim, releaseId: release, slots: 2, functions: ['fn'] }]);
  await waiting;

  const hostile = await join(t, scheduler, 'hostile');
  hostile.agent.onRequest = ({ answer }) => answer(200, 'hostile');
  const claim = { endpointId: victim, releaseId: release, slots: 1_000, functions: ['fn'] };
  // A worker of its own invention, and the one of the other node.
  for (const workers of [[{ ...claim, workerId: 'invented' }], [{ ...claim, workerId: worker?.workerId ?? '' }]]) {
    for (let again = 0; again < 3; again += 1) hostile.agent.announceWorkers(workers);
    for (let each = 0; each < 20; each += 1) t.is((await call(victim)).text, 'honest');
  }
  t.is(hostile.agent.taken.items.length, 0);
  const rejections = (): string[] => lines.filter((line) => line.includes('announced worker rejected'));
  await until('the claim to the worker of another node is logged', () => rejections().length > 0);
  t.is(rejections().length, 1, rejections().join(''));
  t.true(rejections()[0]?.includes(hostile.node.id));

  // The endpoint has no worker any more: its requests wait, and no other node is asked.
  honest.agent.break();
  hostile.agent.announceWorkers([{ ...claim, workerId: 'invented' }]);
  t.is((await call(victim)).status, 503);
  t.is(hostile.agent.taken.items.length, 0);
});
