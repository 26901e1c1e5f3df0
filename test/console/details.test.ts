/** What single pages promise: the overview's nodes and runbook, releases, the form, routes, webhooks, large payloads, environments. */
import { execFile } from 'node:child_process';
import { appendFile, cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import type { Browser, Page } from 'playwright-core';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';
import { Receiver } from '../support/receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { becomes, browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';
import { webhookCases } from './webhook-cases.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

const GPUS = [
  { uuid: 'GPU-11111111-1111-4111-8111-111111111111', name: 'NVIDIA Test A', memoryMiB: 81_920, usedMemory: '40960' },
  { uuid: 'GPU-22222222-2222-4222-8222-222222222222', name: 'NVIDIA Test B', recovery: 'GPU Reset' },
];

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    [stack, browser] = await Promise.all([
      Stack.start({ CAPSTAN_WEBHOOK_ALLOW: '127.0.0.0/8' }, async (folder) => ({
        CAPSTAN_NVIDIA_SMI: await writeFakeSmi(folder, { gpus: GPUS }),
      })),
      openBrowser(),
    ]);
    const app = await stack.deploy(join(import.meta.dirname, 'app'));
    ids = new Map([...app, ...(await stack.deploy(join(import.meta.dirname, 'declared')))]);
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

serial(`the overview shows nodes, their GPUs, and the runbook's text for what needs attention${SKIPPED}`, async (t) => {
  await stack.ended(idOf('greet'), await stack.run(idOf('greet'), { name: 'Ada', style: 'plain' }));
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  await page.getByRole('region', { name: 'Nodes' }).getByText('connected').waitFor();
  const tile = page.getByRole('region', { name: 'Nodes' }).getByRole('listitem');
  await tile.getByText('0 NVIDIA Test A').waitFor();
  await tile.getByText('7 %, 40 GiB of 80 GiB').waitFor();
  await becomes(t, () => tile.getByRole('img', { name: '7 % busy' }).count(), GPUS.length, 'a bar for each GPU');
  await tile.getByText('unhealthy').waitFor();
  const gpus = page.getByRole('region', { name: 'GPUs' });
  const used = gpus.getByRole('row', { name: /NVIDIA Test A/ });
  for (const text of ['40 GiB of 80 GiB', '7 %', '40 °C']) await used.getByText(text, { exact: true }).waitFor();
  await used.getByText(/^greet \(/).waitFor();
  await gpus
    .getByRole('row', { name: /NVIDIA Test B/ })
    .getByText('recovery action needed: GPU Reset')
    // The overview reads these figures once a minute.
    .waitFor({ timeout: 90_000 });
  const attention = page.getByRole('region', { name: 'Needs attention' });
  await attention.getByText('DEVICE_UNHEALTHY').waitFor();
  await attention.getByText('What to do').first().focus();
  await page.keyboard.press('Space');
  await attention.getByText('capstan node list').first().waitFor();
  await attention.getByText('docs/runbook.md#a-gpu-is-unhealthy').waitFor();
  await checkAccessibility(t, page, 'overview with the runbook');
});

serial(`releases say what differs, and a rollback says it before it happens${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await stack.tool('endpoints', 'set', 'words', 'idleTimeout=500');
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('words')}/releases`);
  const builds = page.getByRole('region', { name: 'Builds' });
  await builds.getByText('1 difference', { exact: true }).click();
  await builds.getByText('idleTimeout').waitFor();
  t.regex(await builds.locator('li', { hasText: 'idleTimeout' }).innerText(), /500\s*→\s*600/);
  await checkAccessibility(t, page, 'releases');
  await becomes(t, () => builds.getByRole('button', { name: 'Roll back' }).count(), 0, 'there is no earlier build');
  const changed = join(await folderOf(t), 'app');
  await cp(join(import.meta.dirname, 'app'), changed, { recursive: true });
  await appendFile(join(changed, 'handlers.ts'), '// another build\n');
  for (const args of [
    ['init', '--quiet'],
    ['add', '.'],
    ['commit', '--quiet', '-m', 'mend <b>words</b>'],
  ])
    await promisify(execFile)('git', ['-c', 'user.name=A', '-c', 'user.email=a@example', '-c', 'commit.gpgsign=false', ...args], {
      cwd: changed,
    });
  await stack.deploy(changed);
  await stack.tool('endpoints', 'set', 'words', 'idleTimeout=400');
  const newest = builds.getByRole('row', { name: /current/ });
  await newest.getByText('mend <b>words</b>').waitFor();
  await newest.getByText('deployed by first key').waitFor();
  const comparison = page.getByRole('region', { name: 'Compare releases' });
  await comparison.getByText('handlers.ts').waitFor();
  t.is(await comparison.getByText('web.ts').count(), 0, 'files that are the same are not listed');
  await page.getByLabel('From').selectOption({ index: 0 });
  await page.waitForURL(/from=[0-9a-f]{64}/);
  await comparison.getByText('The same build.').waitFor();
  await page.goBack();
  await comparison.getByText('handlers.ts').waitFor();
  await checkAccessibility(t, page, 'comparison of releases');
  t.regex(await stack.tool('releases', 'list', 'words'), /mend <b>words<\/b>/);
  const rollBack = builds.getByRole('button', { name: 'Roll back' });
  await rollBack.click();
  await page.getByRole('dialog').getByText('idleTimeout').waitFor();
  t.regex(await page.getByRole('dialog').locator('li', { hasText: 'idleTimeout' }).innerText(), /400\s*→\s*600/);
  await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
  await becomes(t, () => rollBack.count(), 1);
  await rollBack.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await until('the endpoint has its first settings', async () => (await stack.tool('endpoints', 'get', 'words')).includes('600'));
});

serial(`a form follows from the function's source, and its request is answered${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('greet')}/test`);
  await page.getByLabel('name: string').fill('Ada');
  await page.getByLabel(/^style/).selectOption('loud');
  await page.getByLabel('times (optional): number').fill('2');
  await page.getByLabel('polite (optional): boolean').selectOption('true');
  t.deepEqual(JSON.parse(await page.getByLabel('Input (JSON)').inputValue()), { name: 'Ada', style: 'loud', times: 2, polite: true });
  await page.getByLabel('times (optional): number').fill('');
  t.false((await page.getByLabel('Input (JSON)').inputValue()).includes('times'), 'an empty optional key is left out');
  await checkAccessibility(t, page, 'test form');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('"dear ADA"').waitFor();
  // The calls run as they are pasted.
  const pasted = (language: string): Promise<string> =>
    page
      .locator('.sample', { has: page.getByRole('heading', { name: language }) })
      .locator('pre')
      .innerText();
  const env = { ...process.env, SERVICE_API_KEY: stack.apiKey };
  const run = promisify(execFile);
  const { stdout: byCurl } = await run('sh', ['-c', await pasted('curl')], { env });
  const { stdout: byNode } = await run(process.execPath, ['--input-type=module', '-e', await pasted('TypeScript')], { env });
  t.true(byCurl.includes('"output":"text"'), byCurl);
  t.true(byNode.includes("output: 'text'"), byNode);
  t.regex(await pasted('Python'), /json\.loads\("\{\\"name\\":\\"text\\"/);
});

serial(`a load-balanced endpoint has rates, latencies and errors by route${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  for (let n = 0; n < 3; n++) t.is((await fetch(`${stack.url}/lb/${idOf('tenant')}/page`)).status, 200);
  t.is((await fetch(`${stack.url}/lb/${idOf('tenant')}/none`)).status, 404);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('tenant')}`);
  const routes = page.getByRole('region', { name: 'Routes' }).getByRole('table');
  await routes
    .getByRole('row', { name: /GET \/page/ })
    .getByText('3', { exact: true })
    // The step of 10 s in which the requests ended has to end, too.
    .waitFor({ timeout: 60_000 });
  const others = routes.getByRole('row', { name: /no route/ });
  await others.waitFor();
  t.regex(await others.innerText(), /1\s.*1\s/);
  await page.getByRole('img', { name: /^Requests a minute: 4 requests/ }).waitFor();
  await page.getByRole('img', { name: /^Refused and failed requests: 1 with status 4xx, 0 with status 5xx/ }).waitFor();
  await page.getByLabel('Route', { exact: true }).selectOption('GET /page');
  await page.getByRole('img', { name: /^Requests a minute: 3 requests/ }).waitFor();
  await checkAccessibility(t, page, 'load-balanced endpoint');
  await page.getByRole('link', { name: 'Overview' }).first().click();
  await page.getByRole('img', { name: '4 requests in the last hour, 0 failed' }).waitFor();
});

webhookCases(serial, () => ({ stack, browser, idOf }));

serial(`attempts that were lost are in the timeline, and the log tells attempts apart${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const job = await stack.run(idOf('lost'), {});
  t.is((await stack.ended(idOf('lost'), job)).status, 'FAILED');
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('lost')}/jobs/${job}`);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  await timeline.getByText(/^Attempt 1 on worker \w+ of .+ ended after [\d.]+ m?s: WORKER_LOST$/).waitFor();
  await timeline.getByText(/^Attempt 2 on worker \w+$/).waitFor();
  const steps = await timeline.getByRole('listitem').allInnerTexts();
  t.regex(steps[0] ?? '', /Submitted/);
  t.true(
    steps.findIndex((step) => step.includes('Attempt 1 ')) < steps.findIndex((step) => /Attempt 2 on worker \w+$/m.test(step)),
    steps.join('\n'),
  );
  const log = page.getByRole('log', { name: 'Log lines' });
  await log.getByText(/attempt 1 .*on its way/).waitFor();
  await log.getByText(/attempt 2 .*on its way/).waitFor();
  await page.getByLabel('Attempt').selectOption('2');
  await log.getByText(/attempt 1 .*on its way/).waitFor({ state: 'detached' });
  await page.getByLabel('Stream').selectOption('stdout');
  await page.waitForURL(/attempt=2&stream=stdout/);
  await log.getByText('on its way').waitFor();
  await page.getByLabel('Wrap').uncheck();
  await checkAccessibility(t, page, 'the log of a job');
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download log' }).click()]);
  t.is((await readFile(await download.path(), 'utf8')).match(/on its way/g)?.length, 1, 'what is shown is saved');
  await page.goto(`${stack.url}/console/endpoints/${idOf('lost')}/logs?job=${job}`);
  await log.getByText(/attempt 1 .*on its way/).waitFor();
  await page.getByLabel('Attempt').selectOption('2');
  await log.getByText(/attempt 1 .*on its way/).waitFor({ state: 'detached' });
  await log.getByText('on its way').waitFor();
});

serial(`a wait without workers and a retry are in the timeline, and hostile errors are text${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const id = idOf('failing');
  await stack.tool('endpoints', 'set', 'failing', 'workersMax=0');
  const job = await stack.run(id, {});
  const query = JSON.stringify({ query: `{ job(endpoint: "${id}", id: "${job}") { queueReasons { reason until } } }` });
  const recorded = async (): Promise<string> => (await stack.call('/graphql', { method: 'POST', body: query })).text();
  await until('the reason is recorded', async () => (await recorded()).includes('PAUSED'));
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${id}/jobs/${job}`);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  await timeline.getByText(/^Waiting: PAUSED since /).waitFor();
  await stack.tool('endpoints', 'set', 'failing', 'workersMax=1');
  t.is((await stack.ended(id, job)).status, 'FAILED');
  await stack.call(`/v2/${id}/retry/${job}`, { method: 'POST' });
  await until('the retry has failed', async () => (await stack.status(id, job)).status === 'FAILED');
  // The page of a job that has ended is not read again.
  await until('the end of the reason is recorded', async () => /"reason":"PAUSED","until":"/.test(await recorded()));
  await page.goto(`${stack.url}/console/endpoints/${id}/jobs/${job}`);
  await timeline.getByText(/^Queued: PAUSED for [\d.]+ s$/).waitFor();
  const failed = timeline.getByRole('listitem').filter({ hasText: /Attempt 1 on worker .* ended after .*: FAILED/ });
  await failed.getByText('refused: <img src=x').waitFor();
  await timeline.getByText('Retried', { exact: true }).waitFor();
  const steps = await timeline.getByRole('listitem').allInnerTexts();
  const order = ['Submitted', 'Queued: PAUSED', ': FAILED', 'Retried'].map((text) => steps.findIndex((step) => step.includes(text)));
  t.deepEqual(
    order.toSorted((a, b) => a - b),
    order,
    steps.join('\n'),
  );
  t.is(await page.evaluate('globalThis.hacked'), undefined);
  await checkAccessibility(t, page, 'timeline of a job');
});

serial(`documents of 5 MB are downloaded as they are${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const input = { text: 'x'.repeat(100_000) };
  const small = await stack.run(idOf('words'), input);
  const large = await stack.run(idOf('large'), {});
  await Promise.all([stack.ended(idOf('words'), small), stack.ended(idOf('large'), large)]);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('large')}/jobs/${large}`);
  const saved = async (title: string): Promise<unknown> => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page
        .getByRole('region', { name: title })
        .getByRole('button', { name: /^Download/ })
        .click(),
    ]);
    return JSON.parse(await readFile(await download.path(), 'utf8')) as unknown;
  };
  t.is(await saved('Output'), 'x'.repeat(5_000_000));
  await page.goto(`${stack.url}/console/endpoints/${idOf('words')}/jobs/${small}`);
  t.deepEqual(await saved('Input'), input);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.getByText('Copied').waitFor();
  const command = await page.evaluate<string>('navigator.clipboard.readText()');
  const { stdout } = await promisify(execFile)('sh', ['-c', command], { env: { ...process.env, SERVICE_API_KEY: stack.apiKey } });
  const again = await stack.ended(idOf('words'), (JSON.parse(stdout) as { id: string }).id);
  t.is(again.status, 'COMPLETED');
});

serial(`jobs are filtered by a time before which they came${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const job = await stack.run(idOf('paused'), { n: 1 });
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  await page.getByRole('link', { name: job }).waitFor();
  await page.getByLabel('Before').fill('2020-01-01T00:00');
  await page.getByText('No jobs.').waitFor();
  await page.getByLabel('Before').fill('2999-01-01T00:00');
  await page.getByRole('link', { name: job }).waitFor();
  t.pass();
});

serial(`environments are created and deleted, an endpoint is deleted, each after a question${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, '/console/account');
  const row = (name: string) => page.getByRole('region', { name: 'Environments' }).getByRole('row', { name: new RegExp(`^${name}`) });
  await becomes(t, () => row('default').getByRole('button', { name: 'Delete' }).getAttribute('aria-disabled'), 'true', 'it has endpoints');
  await page.getByLabel('New environment').fill('Not a name');
  await page.getByRole('button', { name: 'Create environment' }).click();
  await page.getByRole('alert').getByText('must be 1 to 64 letters').waitFor();
  await page.getByLabel('New environment').fill('staging');
  await page.getByRole('button', { name: 'Create environment' }).click();
  await row('staging').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByText('The environment staging is deleted').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await row('staging').waitFor({ state: 'detached' });
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
  await stack.run(idOf('paused'), {});
  await page.goto(`${stack.url}/console/endpoints/${idOf('paused')}`);
  await page.getByRole('button', { name: 'Delete endpoint' }).click();
  await page.getByRole('dialog').getByText('1 queued jobs are cancelled').waitFor();
  const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete endpoint' });
  await page.getByLabel('Type paused to confirm').fill('pause');
  t.true(await confirm.isDisabled(), 'until its name is typed');
  await page.getByLabel('Type paused to confirm').fill('paused');
  await confirm.click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.getByRole('link', { name: 'hostile' }).waitFor();
  await page.getByRole('link', { name: 'paused' }).waitFor({ state: 'detached' });
});

serial(`a node shows the history of its GPUs${SKIPPED}`, async (t) => {
  t.timeout(180_000);
  const device = GPUS[0]?.uuid ?? '';
  const graphql = async <T>(query: string): Promise<T> => {
    const headers = { authorization: `Bearer ${stack.apiKey}`, 'content-type': 'application/json' };
    const response = await fetch(`${stack.url}/graphql`, { method: 'POST', headers, body: JSON.stringify({ query }) });
    return ((await response.json()) as { data: T }).data;
  };
  const { nodes } = await graphql<{ nodes: { id: string }[] }>('{ nodes { id } }');
  const query = `{ deviceHistory(node: "${nodes[0]?.id ?? ''}", device: "${device}", from: ${Date.now() - 600_000}) {
    step at utilization powerWatts memoryUsedBytes temperatureCelsius throttleReasons xid } }`;
  interface Answer {
    readonly deviceHistory: { readonly at: readonly number[] } & Record<'utilization' | 'memoryUsedBytes', readonly (number | null)[]>;
  }
  let answer: Answer['deviceHistory'] | undefined;
  await until(
    'a minute is written',
    async () => {
      answer = (await graphql<Answer>(query)).deviceHistory;
      return answer.utilization.includes(7);
    },
    100_000,
  );
  t.true(answer?.memoryUsedBytes.includes(40_960 * 2 ** 20));
  t.is(answer?.at.length, answer?.utilization.length);
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/nodes/${nodes[0]?.id ?? ''}`);
  await page.getByRole('img', { name: /^GPU utilization: at most 7 % on/ }).waitFor();
  await page.getByRole('img', { name: /^GPU memory: at most 40 GiB used/ }).waitFor();
  await page.getByText('Clocks were not lowered.').waitFor();
  await page.getByLabel('GPU', { exact: true }).selectOption(GPUS[1]?.uuid ?? '');
  await page.getByLabel('Last', { exact: true }).selectOption('3 days');
  await page.getByRole('img', { name: /^GPU power: .*in steps of 15 min/ }).waitFor();
  await checkAccessibility(t, page, 'nodes with the history of GPUs');
});

serial(`channels of alerts are added, tested and removed, and no page has the path of their URL${SKIPPED}`, async (t) => {
  const receiver = await Receiver.open(t, [500, 200]);
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, '/console/account');
  const alerts = page.getByRole('region', { name: 'Alerts', exact: true });
  await page.getByText('Nobody is told.').waitFor();
  const address = page.getByLabel('URL of a webhook, or e-mail address');
  const add = page.getByRole('button', { name: 'Add channel' });
  await address.fill('oncall@example.com');
  await add.click();
  await page.getByText(/address: this service sends no e-mail/).waitFor();
  await address.fill(receiver.url('/services/s3cr3t'));
  await add.click();
  const row = alerts.getByRole('row', { name: /webhook/ }).first();
  await row.getByText(`http://127.0.0.1:${receiver.port}/***`).waitFor();
  await becomes(t, () => address.inputValue(), '');
  await checkAccessibility(t, page, 'channels of alerts');
  await row.getByRole('button', { name: 'Test' }).click();
  await row.getByText('Not delivered: the receiver responded with status 500').waitFor();
  await row.getByRole('button', { name: 'Test' }).click();
  await row.getByText('Delivered.').waitFor();
  t.is(receiver.received.length, 2);
  t.false((await page.content()).includes('s3cr3t'));
  await row.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByText('Nobody is told.').waitFor();
  t.deepEqual(JSON.parse(await stack.tool('alerts', 'list', '--json')), []);

  const viewer = JSON.parse(await stack.tool('keys', 'create', 'viewer', '--scope', 'read-only', '--json')) as { plaintext: string };
  const other = await openPage(t, browser, stack.url);
  await signIn(other, stack.url, viewer.plaintext, '/console/account');
  await other.getByText('Nobody is told.').waitFor();
  t.is(await other.getByRole('button', { name: 'Add channel' }).getAttribute('aria-disabled'), 'true');
});

serial(`what a host that is gone last reported is grey on every page, with when it was seen${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  await page.getByRole('region', { name: 'GPUs' }).getByText('healthy', { exact: true }).first().waitFor();
  const nodes = page.getByRole('region', { name: 'Nodes' });
  const link = (await nodes.getByRole('link').first().getAttribute('href')) ?? '';
  // The supervisor does not start it again before it was seen that it is gone.
  stack.signal('up', 'SIGSTOP');
  try {
    stack.signal('agent', 'SIGKILL');
    // The overview does not wait for its own next reading: the incident begins.
    await nodes.getByText('disconnected').waitFor();
    await nodes
      .getByText(/^last seen \d+ s ago$/)
      .first()
      .waitFor();
    const ages = nodes.getByText(/^last seen \d+ s ago$/).first();
    const age = await ages.innerText();
    await becomes(t, async () => (await ages.innerText()) === age, false);
    await page.getByRole('listitem').filter({ hasText: 'is gone' }).locator('strong a').click();
    await page.getByText('Last seen', { exact: true }).waitFor();
    await page.goto(`${stack.url}/console/`);
    for (const path of ['/console/', '/console/nodes', link]) {
      if (path !== '/console/') await page.goto(`${stack.url}${path}`);
      const gpus = page.getByRole('region', { name: /^GPUs/ }).getByRole('row');
      await gpus
        .getByText(/^last seen \d+ s ago$/)
        .first()
        .waitFor();
      t.is(await gpus.count(), GPUS.length + 1, path);
      for (const row of (await gpus.all()).slice(1)) t.notRegex(await row.innerText(), /healthy|free/, path);
      t.deepEqual(await colours(page, '[aria-label^="GPUs"] tr.stale'), ['muted'], path);
    }
    await page.getByText('Last seen', { exact: true }).waitFor();
    t.regex(await page.locator('.facts .stale').nth(1).innerText(), / of .*GiB \(\d+ %\)$/);
    t.deepEqual(await colours(page, '.facts .stale'), ['muted']);
    await checkAccessibility(t, page, 'a node that is gone');
  } finally {
    stack.signal('up', 'SIGCONT');
  }
  await page.getByRole('region', { name: /^GPUs/ }).getByText('healthy', { exact: true }).first().waitFor();
  t.is(await page.getByText(/last seen/i).count(), 0);
});

/** The colours of what a selector finds and of what is in it: `muted`, else as they are. */
async function colours(page: Page, selector: string): Promise<unknown> {
  return page.evaluate(`(() => {
    const probe = document.body.appendChild(document.createElement('p'));
    probe.className = 'muted';
    const muted = getComputedStyle(probe).color;
    probe.remove();
    const all = [...document.querySelectorAll('${selector}, ${selector} *')].map((each) => getComputedStyle(each).color);
    return [...new Set(all)].map((colour) => (colour === muted ? 'muted' : colour));
  })()`);
}
