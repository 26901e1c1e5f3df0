/** What the console does when things go wrong, and what it costs: restarts, many tabs, slow networks, long lists, hostile names. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser, Page } from 'playwright-core';

import { freePort } from '../support/free-port.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { becomes, browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

const MARKUP = '<img src=x onerror="window.hacked=1">{{7*7}}';
/** As long as a name may be. */
const LONG_NAME = `${MARKUP}"'`.padEnd(128, '&');
const HOSTILE = `${MARKUP}\u202e\u001b[31m`;
const TABS = 10;
/** More than one search looks at. */
const MANY = 2_500;
const RATE = { operation: 'run', requests: 100_000, concurrent: 10_000 };
const AT_ONCE = 50;

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    // A gateway that is started again has the address that pages know.
    [stack, browser] = await Promise.all([
      Stack.start({ CAPSTAN_HTTP_PORT: String(await freePort()), CAPSTAN_HIDE_PAYLOADS: 'on' }),
      openBrowser(),
    ]);
    ids = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

serial(`ten tabs share one stream and all of them show what changes${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const streams: string[] = [];
  page.context().on('request', (request) => {
    if (request.url().endsWith('/api/events')) streams.push(request.url());
  });
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  // Browsers open at most six connections to a host over HTTP/1.1.
  const tabs = await Promise.all(
    Array.from({ length: TABS - 1 }, async () => {
      const tab = await page.context().newPage();
      await tab.goto(`${stack.url}/console/endpoints/${idOf('paused')}/jobs`);
      await tab.getByRole('heading', { level: 1, name: 'paused' }).waitFor();
      return tab;
    }),
  );
  const job = await stack.run(idOf('paused'), { tabs: TABS });
  for (const tab of [page, ...tabs]) {
    await tab.bringToFront();
    await tab.getByRole('link', { name: job }).waitFor();
  }
  t.is(streams.length, 1);
  t.is((await fetch(`${stack.url}/ping`)).status, 200);
});

serial(`a page goes on after a restart of the gateway, with the same session${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  const killed = stack.signal('gateway', 'SIGKILL');
  await until('another gateway serves', async () => {
    const pid = stack.pid('gateway');
    return pid !== null && pid !== killed && (await fetch(`${stack.url}/ping`).catch(() => undefined))?.ok === true;
  });
  const job = await until('the service takes jobs again', () => stack.run(idOf('paused'), { after: 'restart' }).catch(() => null));
  await page.getByRole('link', { name: job }).waitFor();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await becomes(t, () => page.getByLabel('API key').count(), 0, 'the session goes on');
});

serial(`while the scheduler is away the page keeps what it shows and says what is wrong${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}`);
  await page.getByText('In progress', { exact: true }).waitFor();
  stack.signal('scheduler', 'SIGSTOP');
  try {
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('alert').first().waitFor();
    await page.getByRole('link', { name: 'Overview' }).last().click();
    await page.getByText('In progress', { exact: true }).waitFor();
  } finally {
    stack.signal('scheduler', 'SIGCONT');
  }
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('workersMax').waitFor();
  t.pass();
});

serial(`a slow network is enough: 200 ms for each round trip${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const network = await page.context().newCDPSession(page);
  await network.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 200,
    downloadThroughput: 250_000,
    uploadThroughput: 250_000,
  });
  await signIn(page, stack.url, stack.apiKey);
  await page.getByRole('link', { name: 'words' }).click();
  await page.getByRole('link', { name: 'Test', exact: true }).click();
  await page.getByLabel('Input (JSON)').fill('{"text": "slow network"}');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('"network"').waitFor();
  // What a page waits for one after another decides how long it takes: the document, its script, the session, its data.
  const waits = await page.evaluate<number>(`
    (async () => {
      const response = await fetch('./');
      return [...(await response.text()).matchAll(/<script[^>]* src=/g)].length;
    })()`);
  t.is(waits, 1, 'the document names every script that the first page needs');
});

serial(`a list of thousands of jobs is paged, searched on, and not counted${SKIPPED}`, async (t) => {
  const query = 'mutation ($id: ID!, $settings: EndpointSettings!) { updateEndpoint(endpoint: $id, settings: $settings) { id } }';
  await stack.call('/graphql', {
    method: 'POST',
    body: JSON.stringify({ query, variables: { id: idOf('paused'), settings: { rateLimits: [RATE] } } }),
  });
  for (let done = 0; done < MANY; done += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => stack.run(idOf('paused'), { mark: done + n === 0 ? 'needle' : 'hay' })));
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  const rows = page.getByRole('region', { name: 'Jobs' }).getByRole('row');
  await rows.nth(50).waitFor();
  await becomes(t, () => rows.count(), 51, 'fifty and the head');
  const first = await rows.nth(1).getByRole('link').innerText();
  await page.getByRole('button', { name: 'Older' }).click();
  await page.getByRole('link', { name: first }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Newer' }).click();
  await page.getByRole('link', { name: first }).waitFor();
  await page.getByLabel('ID, or text in input or error').fill('needle');
  await page.getByText('None among those looked at so far.').waitFor();
  await page.getByRole('button', { name: 'Search on' }).click();
  await rows.nth(1).waitFor();
  await becomes(t, () => rows.count(), 2);
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
});

serial(`hostile names, inputs and errors are text everywhere${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const mutate = async (query: string, variables: object): Promise<void> => {
    const answer = await stack.call('/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) });
    t.deepEqual(Object.keys((await answer.json()) as object), ['data']);
  };
  await mutate('mutation ($n: String!) { createApiKey(name: $n, scope: READ_ONLY) { text } }', { n: LONG_NAME });
  await mutate('mutation ($n: String!) { createJoinToken(name: $n) { text } }', { n: LONG_NAME });
  await mutate('mutation ($e: ID!, $s: EndpointSettings!) { updateEndpoint(endpoint: $e, settings: $s) { id } }', {
    e: idOf('failing'),
    s: { description: MARKUP },
  });
  const failed = await stack.run(idOf('failing'), { [HOSTILE]: [HOSTILE] });
  await stack.ended(idOf('failing'), failed);
  await signIn(page, stack.url, stack.apiKey);
  const endpoint = `/endpoints/${idOf('failing')}`;
  for (const path of [
    '/',
    endpoint,
    `${endpoint}/jobs`,
    `${endpoint}/jobs/${failed}`,
    `${endpoint}/logs`,
    `${endpoint}/settings`,
    '/keys',
    '/service',
  ]) {
    await page.goto(`${stack.url}/console${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.getByText('Loading…').first().waitFor({ state: 'detached' });
    if (path.endsWith(failed)) {
      t.false((await page.locator('main').innerText()).includes('{ 1 }'), 'the input is hidden');
      await page.getByRole('button', { name: /^Show input/ }).click();
      await page.getByText('{ 1 }').waitFor();
    }
    t.is(await page.locator('main img:not([role]), main script').count(), 0, path);
    t.is(await page.evaluate('globalThis.hacked'), undefined, path);
    const text = await page.locator('main').innerText();
    t.false(text.includes('\u001b') || text.includes('\u202e'), `${path} shows controls as symbols`);
  }
});

/** Presses Tab until an element with this role and name has the focus. */
async function tabTo(page: Page, role: 'link' | 'button' | 'textbox', name: string): Promise<void> {
  const wanted = page.getByRole(role, { name, exact: true }).first();
  await wanted.waitFor();
  for (let n = 0; n < 60; n++) {
    if ((await wanted.and(page.locator(':focus')).count()) > 0) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${role} ${name} was not reached by Tab`);
}

serial(`everything is reached by Tab, dialogs close by Escape and return the focus${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await page.goto(`${stack.url}/console`);
  await page.getByLabel('API key').waitFor();
  await page.keyboard.type(stack.apiKey);
  await page.keyboard.press('Enter');
  await tabTo(page, 'link', 'failing');
  await page.keyboard.press('Enter');
  await tabTo(page, 'button', 'Delete endpoint');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await becomes(t, () => page.evaluate('document.activeElement.textContent'), 'Keep', 'the harmless answer has the focus');
  await checkAccessibility(t, page, 'a question');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await becomes(t, () => page.evaluate('document.activeElement.textContent'), 'Delete endpoint', 'the focus returns');
  await tabTo(page, 'link', 'Jobs');
  await page.keyboard.press('Enter');
  await page.getByLabel('Status').waitFor();
  await page.goto(`${stack.url}/console/nodes`);
  await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await becomes(t, () => page.evaluate('document.activeElement.tagName'), 'MAIN', 'the first Tab skips to the content');
});

serial(`a read-only key sees every page, and every action says why it is not permitted${SKIPPED}`, async (t) => {
  const created = await stack.call('/graphql', {
    method: 'POST',
    body: JSON.stringify({ query: 'mutation { createApiKey(name: "viewer", scope: READ_ONLY) { text } }' }),
  });
  const { data } = (await created.json()) as { data: { createApiKey: { text: string } } };
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, data.createApiKey.text);
  const endpoint = `/endpoints/${idOf('failing')}`;
  const job = await stack.run(idOf('paused'), {});
  const changes = /^(Delete|Delete endpoint|Purge queue|Save|Set|Remove|Run|Cancel job|Retry|Drain|Send again|Create .*|Revoke|Roll back)$/;
  for (const path of [
    '/',
    endpoint,
    `/endpoints/${idOf('paused')}/jobs`,
    `/endpoints/${idOf('paused')}/jobs/${job}`,
    ...['test', 'logs', 'settings', 'releases'].map((tab) => `${endpoint}/${tab}`),
    '/nodes',
    '/webhooks',
    '/keys',
    '/account',
  ]) {
    await page.goto(`${stack.url}/console${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.getByText('Loading…').first().waitFor({ state: 'detached' });
    await becomes(t, () => page.getByRole('alert').count(), 0, `${path} is refused in parts`);
    for (const button of await page.getByRole('button', { name: changes }).all())
      await becomes(t, () => button.getAttribute('aria-disabled'), 'true', `${path}: ${await button.innerText()}`);
  }
  await page.goto(`${stack.url}/console/webhooks`);
  await page.getByText('This needs a key with the scope ALL or OPERATOR.').waitFor();
  await page.goto(`${stack.url}/console/service`);
  await page.getByText('This needs a key with the scope OPERATOR.').waitFor();
  // A page that was changed by hand is refused by the service.
  const refused = await page.evaluate<number>(`
    fetch('../console/api/v2/${idOf('paused')}/purge-queue', { method: 'POST', headers: { 'capstan-console': '/console' } }).then(({ status }) => status)`);
  t.is(refused, 401);
});

serial(`what a read-only key may not see of a node is absent, in the page and in the tool, and not 0${SKIPPED}`, async (t) => {
  const created = await stack.call('/graphql', {
    method: 'POST',
    body: JSON.stringify({ query: 'mutation { createApiKey(name: "gauges", scope: READ_ONLY) { plaintext } }' }),
  });
  const { plaintext } = ((await created.json()) as { data: { createApiKey: { plaintext: string } } }).data.createApiKey;
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, plaintext, '/console/nodes');
  const workers = page.getByRole('region', { name: /^Workers of / });
  await workers.getByRole('link', { name: 'hostile' }).waitFor();
  const text = await page.locator('main').innerText();
  t.regex(text, /Memory\s+\d+(\.\d)? [GM]iB\s/, 'what the host has');
  t.notRegex(text, /\b0 B\b|100 %|Free disk|% busy|Agent\b/, 'nothing of how it is used');
  await page.goto(`${stack.url}/console/`);
  const tile = page.getByRole('region', { name: 'Nodes' }).getByRole('listitem').first();
  await tile.waitFor();
  t.is((await tile.innerText()).match(/–/g)?.length, 2, 'neither load nor memory');
  const [node] = JSON.parse(await stack.toolAs(plaintext, 'node', 'list', '-o', 'json')) as Record<string, unknown>[];
  t.like(node, { cpuPercent: null, memoryAvailableBytes: null, diskAvailableBytes: null });
  t.true(Number(node?.['workers']) > 0 && Number(node?.['memoryBytes']) > 0);
  const [all] = JSON.parse(await stack.tool('node', 'list', '-o', 'json')) as Record<string, unknown>[];
  for (const gauge of ['cpuPercent', 'memoryAvailableBytes', 'diskAvailableBytes']) t.is(typeof all?.[gauge], 'number', gauge);
});

serial(`a key for one environment sees its endpoints and no refusals${SKIPPED}`, async (t) => {
  const query = 'mutation { createApiKey(name: "one", scope: ENVIRONMENT, environment: "default") { text } }';
  const created = await stack.call('/graphql', { method: 'POST', body: JSON.stringify({ query }) });
  const { data } = (await created.json()) as { data: { createApiKey: { text: string } } };
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, data.createApiKey.text);
  const job = await stack.run(idOf('hostile'), {});
  await stack.ended(idOf('hostile'), job);
  const endpoint = `/endpoints/${idOf('hostile')}`;
  for (const path of [
    '/',
    endpoint,
    `${endpoint}/jobs`,
    `${endpoint}/jobs/${job}`,
    `${endpoint}/test`,
    `${endpoint}/logs`,
    `${endpoint}/settings`,
    `${endpoint}/releases`,
    '/nodes',
    '/webhooks',
    '/keys',
    '/account',
  ]) {
    await page.goto(`${stack.url}/console${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.getByText('Loading…').first().waitFor({ state: 'detached' });
    t.deepEqual(await page.getByRole('alert').allInnerTexts(), [], path);
  }
});
