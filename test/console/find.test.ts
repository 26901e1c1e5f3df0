/** Whoever looks for something finds it: one search box over all pages, and names with links where a page speaks of a thing. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser, Page } from 'playwright-core';

import { Receiver } from '../support/receiver.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { MARKUP } from './app/handlers.ts';
import { becomes, browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    [stack, browser] = await Promise.all([Stack.start({ CAPSTAN_WEBHOOK_ALLOW: '127.0.0.0/8' }), openBrowser()]);
    ids = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

async function graphql<T>(query: string, variables: object = {}): Promise<T> {
  const response = await stack.call('/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) });
  return ((await response.json()) as { data: T }).data;
}

/** Opens the search box by the keyboard, types, and waits until the search has ended. */
async function search(page: Page, text: string): Promise<void> {
  await page.keyboard.press('Control+k');
  const dialog = page.getByRole('dialog', { name: 'Search' });
  await dialog.getByRole('combobox').fill(text);
  await dialog.getByRole('status').filter({ hasNotText: 'Searching' }).waitFor();
}

serial(`jobs, endpoints, nodes, workers and keys are found by the keyboard alone, from every page${SKIPPED}`, async (t) => {
  const job = await stack.run(idOf('hostile'), {});
  const { workerId = '' } = await stack.ended(idOf('hostile'), job);
  const [node] = JSON.parse(await stack.tool('node', 'list', '--json')) as { id: string; name: string }[];
  await graphql('mutation ($name: String!) { createApiKey(name: $name, scope: READ_ONLY) { key { id } } }', { name: `key ${MARKUP}` });
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, '/console/account');
  const options = page.getByRole('listbox', { name: 'Found' }).getByRole('option');

  await search(page, ` job ${job}\n`);
  await options.filter({ hasText: job }).waitFor();
  await checkAccessibility(t, page, 'search');
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/endpoints/${idOf('hostile')}/jobs/${job}$`));
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await search(page, 'wor');
  await options.filter({ hasText: /^endpoint\s*words/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/endpoints/${idOf('words')}$`));

  await search(page, node?.name ?? '');
  const place = (await options.allInnerTexts()).findIndex((text) => text.startsWith('node'));
  for (let n = 0; n < place; n++) await page.keyboard.press('ArrowDown');
  await page.getByRole('option', { selected: true }).filter({ hasText: /^node/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/nodes/${node?.id ?? ''}$`));

  await search(page, workerId);
  await options.filter({ hasText: 'hostile on' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/logs\\?worker=${workerId}`));

  await search(page, 'onerror');
  await options.filter({ hasText: 'key <img src=x onerror' }).waitFor();
  t.is(await page.evaluate('window.hacked'), undefined, 'a name is text');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/keys\?filter=/);
  await page.getByRole('region', { name: 'API keys' }).getByText('<img src=x').waitFor();
  await becomes(t, () => page.getByRole('region', { name: 'API keys' }).getByRole('row').count(), 2, 'the title and the key');

  const searches: string[] = [];
  page.on('request', (request) => {
    const query = request.postData() ?? '';
    if (query.includes('ListFleet') || query.includes('FindJob')) searches.push(query);
  });
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Search' }).getByRole('combobox').pressSequentially('no such thing');
  await page.getByText('Nothing matches').waitFor();
  t.true(searches.length < 'no such thing'.length, `keys ask nothing of the service: ${searches.length}`);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('Meta+k');
  await page.getByRole('dialog', { name: 'Search' }).waitFor();
});

serial(`one request finds a job, whose page names the key that submitted it${SKIPPED}`, async (t) => {
  const { createApiKey } = await graphql<{ createApiKey: { plaintext: string } }>(
    'mutation ($name: String!) { createApiKey(name: $name, scope: ALL) { plaintext } }',
    { name: `nightly ${MARKUP}` },
  );
  const headers = { authorization: `Bearer ${createApiKey.plaintext}`, 'content-type': 'application/json' };
  const response = await fetch(`${stack.url}/v2/${idOf('hostile')}/run`, { method: 'POST', headers, body: '{"input":{}}' });
  const { id: job } = (await response.json()) as { id: string };
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  const finds: string[] = [];
  page.on('request', (request) => {
    if (/\bjob\(/.test(request.postData() ?? '')) finds.push(request.postData() ?? '');
  });
  await search(page, job);
  await page.getByRole('option').filter({ hasText: job }).waitFor();
  t.is(finds.length, 1, 'one for all endpoints');
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/endpoints/${idOf('hostile')}/jobs/${job}$`));
  await page.getByRole('link', { name: 'nightly <img src=x' }).click();
  await page.waitForURL(/\/keys\?filter=/);
  await becomes(t, () => page.getByRole('region', { name: 'API keys' }).getByRole('row').count(), 2, 'the title and the key');
  await page.goto(`${stack.url}/console/endpoints/${idOf('hostile')}/jobs?columns=key`);
  await page.getByRole('region', { name: 'Jobs', exact: true }).getByRole('link', { name: 'nightly <img src=x' }).waitFor();
  t.is(await page.evaluate('window.hacked'), undefined, 'a name is text');
});

serial(`on macOS Ctrl+K stays the key of text fields, and ⌘K opens the search${SKIPPED}`, async (t) => {
  const userAgent = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15';
  const page = await openPage(t, browser, stack.url, { userAgent });
  await signIn(page, stack.url, stack.apiKey);
  await page.getByLabel('Filter').focus();
  await page.evaluate(`
    document.addEventListener('keydown', (event) => { if (event.key === 'k') globalThis.taken = event.defaultPrevented; });
  `);
  await page.keyboard.press('Control+k');
  t.is(await page.evaluate('globalThis.taken'), false, 'the browser gets it');
  t.is(await page.getByRole('dialog').count(), 0);
  await page.keyboard.press('Meta+k');
  await page.getByRole('dialog', { name: 'Search' }).waitFor();
});

serial(`the search box finds nothing of another account, nor of what a key does not cover${SKIPPED}`, async (t) => {
  const job = await stack.run(idOf('paused'), {});
  const { createAccount } = await graphql<{ createAccount: { keyText: string } }>(
    'mutation { createAccount(id: "neighbour") { keyText } }',
  );
  const { createApiKey } = await graphql<{ createApiKey: { plaintext: string } }>(
    'mutation ($of: [ID!]) { createApiKey(name: "some", scope: ENDPOINTS, endpoints: $of) { plaintext } }',
    { of: [idOf('words')] },
  );
  for (const key of [createAccount.keyText, createApiKey.plaintext]) {
    const page = await openPage(t, browser, stack.url);
    await signIn(page, stack.url, key, '/console');
    for (const text of [job, idOf('paused'), 'hostile', 'key <img']) {
      await search(page, text);
      await page.getByText(/Nothing matches|nothing to find/).waitFor();
      t.is(await page.getByRole('option').count(), 0, text);
      await page.keyboard.press('Escape');
    }
  }
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
});

serial(`a cold start is told as one and a warm one is not; worker and node are links with names${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const [node] = JSON.parse(await stack.tool('node', 'list', '--json')) as { id: string; name: string }[];
  const cold = await stack.run(idOf('words'), { text: 'one two' });
  const { workerId = '' } = await stack.ended(idOf('words'), cold);
  const warm = await stack.run(idOf('words'), { text: 'three 9007199254740993' });
  t.is((await stack.ended(idOf('words'), warm)).workerId, workerId, 'the same worker');
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('words')}/jobs/${cold}`);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  const bars = timeline.getByRole('group', { name: 'Spans of time' });
  await timeline.getByText(/^Cold start: this worker was ready /).waitFor();
  for (const label of ['Wait', 'Start: build', 'Start: process', 'Start: module', 'Attempt 1'])
    await bars.getByText(label, { exact: true }).waitFor();
  await checkAccessibility(t, page, 'bars of a job');
  await page.setViewportSize({ width: 390, height: 844 });
  await becomes(t, async () => ((await bars.locator('svg').first().boundingBox())?.width ?? 0) > 200, true, 'a bar on a phone');
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`${stack.url}/console/endpoints/${idOf('words')}/jobs/${warm}`);
  await bars.getByText('Attempt 1', { exact: true }).waitFor();
  t.is(await timeline.getByText('Cold start').count(), 0);
  t.is(await bars.getByText(/^Start/).count(), 0);
  await timeline.getByRole('link', { name: workerId }).click();
  await page.waitForURL(new RegExp(`/logs\\?worker=${workerId}`));
  await page.goto(`${stack.url}/console/endpoints/${idOf('words')}`);
  await page
    .getByRole('region', { name: 'Scaling decisions' })
    .first()
    .getByRole('link', { name: node?.name ?? '' })
    .first()
    .click();
  await page.waitForURL(new RegExp(`/nodes/${node?.id ?? ''}$`));

  await page.goto(`${stack.url}/console/endpoints/${idOf('words')}/jobs/${warm}`);
  await page.getByRole('button', { name: 'Edit and run again' }).click();
  await page.waitForURL(new RegExp(`/test\\?job=${warm}$`));
  const input = page.getByLabel('Input (JSON)');
  await until('the input is read', async () => (await input.inputValue()).includes('9007199254740993'));
  await input.fill((await input.inputValue()).replace('three', 'four'));
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  const result = page.getByRole('status').filter({ hasText: 'COMPLETED' });
  await result.getByText('four').waitFor();
});

serial(`a test request says why it waits, and is cancelled${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/test`);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText(/^Waiting: PAUSED/).waitFor();
  await checkAccessibility(t, page, 'a test request that waits');
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('status').getByText('CANCELLED').waitFor();
  t.pass();
});

serial(`the overview begins with problems, and is in the order of a column that the address names${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const waiting = await stack.run(idOf('paused'), {});
  await until('the reason is known', async () => {
    const { endpoint } = await graphql<{ endpoint: { queue: { reason: string | null } } }>(
      'query ($id: ID!) { endpoint(id: $id) { queue { reason } } }',
      { id: idOf('paused') },
    );
    return endpoint.queue.reason !== null;
  });
  await signIn(page, stack.url, stack.apiKey, '/console/');
  const table = page.getByRole('region', { name: 'Endpoints' }).getByRole('table');
  const first = table.locator('tbody tr').first();
  await first.filter({ hasText: 'paused' }).waitFor();
  await table
    .locator('svg title', { hasText: /jobs in the last hour, \d+ failed/ })
    .first()
    .waitFor({ state: 'attached' });
  await checkAccessibility(t, page, 'overview in order');
  await table.getByRole('button', { name: 'Errors' }).click();
  await page.waitForURL(/sort=-errors/);
  await table.getByRole('button', { name: 'Name' }).click();
  await page.waitForURL(/sort=name/);
  await becomes(
    t,
    () => table.locator('tbody tr td:first-child').allInnerTexts(),
    [...ids.keys()].toSorted((a, b) => a.localeCompare(b)),
  );
  await becomes(t, () => table.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort'), 'ascending');
  await page.goBack();
  await page.waitForURL(/sort=-errors/);
  await page.goto(`${stack.url}/console/?sort=constructor`);
  await first.filter({ hasText: 'paused' }).waitFor();
  await stack.call(`/v2/${idOf('paused')}/cancel/${waiting}`, { method: 'POST' });
});

serial(`webhooks lead to their job and endpoint, are filtered, and are all sent again${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  let status = 500;
  const receiver = await Receiver.open(t, [(response) => void response.writeHead(status).end()]);
  const submit = async (name: string): Promise<string> => {
    const body = JSON.stringify({ input: {}, webhook: receiver.url('/hook') });
    const { id } = (await (await stack.call(`/v2/${idOf(name)}/run`, { method: 'POST', body })).json()) as { id: string };
    await stack.ended(idOf(name), id);
    return id;
  };
  const jobs = [await submit('words'), await submit('words')];
  const other = await submit('hostile');
  await signIn(page, stack.url, stack.apiKey, '/console/webhooks');
  const table = page.getByRole('region', { name: 'Webhooks' });
  await table.getByRole('link', { name: other }).waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
  const fits = "(() => { const box = document.querySelector('.table'); return box.scrollWidth <= box.clientWidth; })()";
  await becomes(t, () => page.evaluate(fits), true, 'the buttons are seen');
  await page.getByLabel('Endpoint').selectOption({ label: 'words' });
  await page.waitForURL(/endpoint=/);
  await table.getByRole('link', { name: other }).waitFor({ state: 'detached' });
  for (const job of jobs) await table.getByRole('link', { name: job }).waitFor();
  await checkAccessibility(t, page, 'webhooks of an endpoint');
  status = 200;
  await page.getByRole('button', { name: 'Send all again' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send all again' }).click();
  await page.getByText(/^[12] sent again\.$/).waitFor();
  for (const job of jobs) await table.getByRole('link', { name: job }).waitFor({ state: 'detached' });
  await page.goto(`${stack.url}/console/webhooks`);
  t.is(await page.evaluate('window.hacked'), undefined);
});
