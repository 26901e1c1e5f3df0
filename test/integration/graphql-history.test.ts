/** GraphQL `history`: what happened at an endpoint, kept by the scheduler over its restarts. */
import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

interface Reply {
  readonly data?: {
    readonly history: {
      readonly step: number;
      readonly at: number[];
      readonly submitted: number[];
      readonly delay: { p50: (number | null)[] };
    };
  };
  readonly errors?: readonly { readonly message: string; readonly extensions: { readonly code: string; readonly field?: string } }[];
}

const FIELDS = '{ step at submitted completed inQueue workers { idle } delay { p50 } execution { p99 } starts { count loaded } }';

async function open(t: ExecutionContext) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const [endpoint = ''] = (await scheduler.deploy([{ name: 'echo' }])).endpoints.map(({ id }) => id);
  const post = async (path: string, body: unknown): Promise<Response> => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${scheduler.secret('api-key')}` };
    return fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  const ask = async (args: string): Promise<Reply> =>
    (await (await post('/graphql', { query: `{ history(${args}) ${FIELDS} }` })).json()) as Reply;
  return { scheduler, endpoint, post, ask };
}

test('what happened before a restart of the scheduler is there after it', async (t) => {
  const { scheduler, endpoint, post, ask } = await open(t);
  const from = Date.now() - 7_200_000;
  await until('a job is accepted', async () => (await post(`/v2/${endpoint}/run`, { input: {} })).ok);
  await scheduler.restart();
  let reply: Reply = {};
  await until('the gateway knows the scheduler again', async () => {
    reply = await ask(`endpoint: "${endpoint}", from: ${from}, step: 3600`);
    return reply.data !== undefined;
  });
  const history = reply.data?.history;
  t.is(history?.step, 3_600);
  t.deepEqual(history?.submitted.slice(-1), [1]);
  t.is(
    history?.submitted.reduce((sum, count) => sum + count, 0),
    1,
  );
  t.true(
    history?.delay.p50.every((value) => value === null),
    'no job has ended',
  );
  t.is(history?.at.length, history?.submitted.length);
  t.true((history?.at.at(-1) ?? 0) <= Date.now());
});

test('refusals name the field', async (t) => {
  const { endpoint, ask } = await open(t);
  await until('the endpoint is known', async () => (await ask(`endpoint: "${endpoint}", from: ${Date.now() - 60_000}`)).data !== undefined);
  const now = Date.now();
  for (const [args, code, field] of [
    [`endpoint: "none", from: ${now}`, 'NOT_FOUND', undefined],
    [`endpoint: "${endpoint}", from: -1`, 'INVALID_ARGUMENT', 'from'],
    [`endpoint: "${endpoint}", from: 1e300`, 'INVALID_ARGUMENT', 'from'],
    [`endpoint: "${endpoint}", from: ${now}, to: ${now - 1}`, 'INVALID_ARGUMENT', 'to'],
    [`endpoint: "${endpoint}", from: ${now - 60_000}, step: 15`, 'INVALID_ARGUMENT', 'step'],
    [`endpoint: "${endpoint}", from: ${now - 60_000}, step: -10`, 'INVALID_ARGUMENT', 'step'],
    [`endpoint: "${endpoint}", from: 1, step: 10`, 'INVALID_ARGUMENT', 'step'],
  ] as const) {
    const { errors } = await ask(args);
    t.is(errors?.[0]?.extensions.code, code, args);
    t.is(errors?.[0]?.extensions.field, field, args);
  }
});

interface Figures {
  readonly data: {
    readonly routeFigures: readonly {
      readonly method: string;
      readonly path: string;
      readonly requests: number;
      readonly refused: number;
      readonly errors: number;
      readonly p50: number;
      readonly requestsByStep: readonly number[];
    }[];
    readonly routeHistory: {
      readonly step: number;
      readonly at: readonly number[];
      readonly all: { readonly requests: readonly number[]; readonly durations: { readonly p95: readonly (number | null)[] } };
      readonly routes: readonly { readonly path: string; readonly errors: readonly number[] }[];
    };
  };
}

test('figures by route are those of all gateways, whichever is asked', async (t) => {
  const { scheduler, post } = await open(t);
  const { endpoints } = await scheduler.deploy([
    { name: 'web', kind: EndpointKind.LOAD_BALANCED, scalerType: 'REQUEST_COUNT', routes: { 'GET /x/{id}': 'web' } },
  ]);
  const other = { name: 'bare', kind: EndpointKind.LOAD_BALANCED, scalerType: 'REQUEST_COUNT', routes: { 'GET /': 'bare' } };
  const bare = (await scheduler.deploy([other])).endpoints.find(({ spec }) => spec?.name === 'bare')?.id ?? '';
  const endpoint = endpoints.find(({ spec }) => spec?.name === 'web')?.id ?? '';
  const calls = [1, 2].map(() => scheduler.gateways.session(scheduler.bearer(scheduler.secret('gateway-token'))));
  for (const call of calls) {
    call.on('error', () => undefined);
    t.teardown(() => call.cancel());
    const counts = { requests: 2, refused: 1, errors: 1, classes: [40], classCounts: [2] };
    const routes = ['GET /x/{id}', 'GET /hostile'].map((route) => ({ endpointId: endpoint, route, ...counts }));
    call.write({ invokeAddress: '', httpUrl: '', levels: [], routes: [...routes, { endpointId: 'none', route: '', ...counts }] });
    // A report without durations.
    call.write({
      invokeAddress: '',
      httpUrl: '',
      levels: [],
      routes: [{ ...counts, endpointId: bare, route: '', classes: [], classCounts: [] }],
    });
  }
  const query = `{
    routeFigures(endpoint: "${endpoint}") { method path requests refused errors p50 requestsByStep }
    routeHistory(endpoint: "${endpoint}", from: ${Date.now() - 600_000}) {
      step at all { requests durations { p95 } } routes { path errors }
    }
  }`;
  let found: Figures | undefined;
  await until('the requests are in the history', async () => {
    found = (await (await post('/graphql', { query })).json()) as Figures;
    return found.data.routeFigures.length > 0;
  });
  const { routeFigures = [], routeHistory } = found?.data ?? {};
  t.deepEqual(
    routeFigures.map(({ method, path, requests, refused, errors }) => ({ method, path, requests, refused, errors })),
    [
      { method: 'GET', path: '/x/{id}', requests: 4, refused: 2, errors: 2 },
      { method: '', path: '', requests: 4, refused: 2, errors: 2 },
    ],
  );
  const sum = (values: readonly number[] = []): number => values.reduce((total, value) => total + value, 0);
  t.is(routeFigures[0]?.requestsByStep.length, 12);
  t.is(sum(routeFigures[0]?.requestsByStep), 4);
  t.is(Math.round(routeFigures[0]?.p50 ?? 0), 1_023);
  const plain = (await (await post('/graphql', { query: query.replaceAll(endpoint, bare) })).json()) as Figures;
  t.like(plain.data.routeFigures[0], { method: '', path: '', requests: 4, p50: 0 });
  t.is(routeHistory?.step, 10);
  t.is(sum(routeHistory?.all.requests), 8);
  t.is(routeHistory?.all.durations.p95.filter((value) => value !== null).length, 1);
  t.deepEqual(
    routeHistory?.routes.map(({ path, errors }) => [path, sum(errors)]),
    [
      ['/x/{id}', 2],
      ['', 2],
    ],
  );
});
