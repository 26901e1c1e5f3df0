/** GraphQL `attention` over real HTTP: from a job that waits to the item that names it. */
import test from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

interface Reply {
  readonly data?: { readonly attention: { readonly items: readonly Readonly<Record<string, unknown>>[]; readonly omitted: number } };
}

test('a job that no node can run is listed with its endpoint, reason and runbook section', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent' }, {}));
  t.teardown(() => gateway.close());
  const post = async (path: string, body: object): Promise<Response> =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${scheduler.secret('api-key')}` },
      body: JSON.stringify(body),
    });
  const attention = async (): Promise<Reply['data']> => {
    const query =
      '{ attention { items { severity subject actions { command } effects { kind } kind cell since endpoint account node message runbook } omitted } }';
    return ((await (await post('/graphql', { query })).json()) as Reply).data;
  };
  const { endpoints } = await scheduler.deploy([{ name: 'echo' }]);
  const endpoint = endpoints[0]?.id ?? '';
  await until('the gateway takes the job', async () => (await post(`/v2/${endpoint}/run`, { input: {} })).status === 200);
  await until('the job needs attention', async () => ((await attention())?.attention.items.length ?? 0) > 0);
  const found = await attention();
  t.like(found?.attention.items[0], {
    kind: 'NO_CAPACITY',
    severity: 'CRITICAL',
    subject: 'echo',
    actions: [{ command: 'capstan endpoints get echo' }, { command: 'capstan logs echo' }],
    effects: [],
    cell: 'default',
    endpoint,
    account: 'default',
    node: null,
    runbook: 'runbook.md#jobs-wait-and-none-runs',
  });
  t.regex(String(found?.attention.items[0]?.['since']), /^\d{4}-\d\d-\d\dT/);
  t.regex(String(found?.attention.items[0]?.['message']), /^echo: \d+ jobs? waits?: /);
  t.is(found?.attention.omitted, 0);
});
