/** The console in a real browser over a real stack: each page's main path, what it refuses, hostile texts, keyboard, accessibility. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser, Page } from 'playwright-core';

import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { becomes, browserPath, buildConsole, closeBrowser, checkAccessibility, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';
import { logWaits } from './log-waits.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';
const hacked = (page: Page): Promise<unknown> => page.evaluate('globalThis.hacked');

/** What reaches beyond the right edge of the screen, where the page scrolls sideways. */
const WIDER_THAN_SCREEN = `(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  const beyond = [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > clientWidth + 1);
  return scrollWidth <= clientWidth ? [] : ['by ' + (scrollWidth - clientWidth), ...beyond.map((each) => each.tagName + '.' + each.className)];
})()`;

/** What a browser does when another tab comes before this one. */
async function show(page: Page, isVisible: boolean): Promise<void> {
  const state = isVisible ? 'visible' : 'hidden';
  await page.evaluate(`
    Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  `);
}

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    [stack, browser] = await Promise.all([Stack.start(), openBrowser()]);
    ids = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

serial(`sign in, a wrong key, the path that was asked for, sign out${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await page.goto(`${stack.url}/console/nodes`);
  await page.getByLabel('API key').fill('cap_wrong');
  await page.keyboard.press('Enter');
  await page.getByText('the API key is unknown or revoked').waitFor();
  await checkAccessibility(t, page, 'sign-in');
  await page.getByLabel('API key').fill(stack.apiKey);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor();
  const stored = String(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie'));
  t.false(stored.includes(stack.apiKey) || stored.includes('ses_'), 'neither the key nor the token can be read by scripts');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You signed out.').waitFor();
  await page.goto(`${stack.url}/console/nodes`);
  await page.getByLabel('API key').waitFor();
});

serial(`from the endpoints to a test request, its job, its log, by keyboard alone${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  await page.getByRole('link', { name: 'hostile' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'hostile' }).waitFor();
  await page.getByRole('link', { name: 'Test', exact: true }).focus();
  await page.keyboard.press('Enter');
  const input = page.getByLabel('Input (JSON)');
  await input.focus();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('{"prompt": "<b>fox</b>"}');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByText('COMPLETED').first().waitFor();
  await page.locator('.panel[role=status] a').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Timeline' }).waitFor();
  await page.getByText('Attempt 1 on worker').waitFor();
  await page.getByText('"<b>fox</b>"').first().waitFor();
  await page.locator('.log').getByText('line <img').waitFor();
  // Controls and marks of direction are shown, not obeyed.
  t.true((await page.locator('.log').innerText()).includes('⟨U+202E⟩␛[31m'));
  t.is(await page.locator('main img, main script').count(), 0);
  t.is(await hacked(page), undefined);
  await checkAccessibility(t, page, 'job');
});

serial(`a stream shows its chunks, a failure its error, and a failed job can be tried again${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('words')}/test`);
  await page.getByLabel('Input (JSON)').fill('{"text": "one two three"}');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('"three"').waitFor();
  await page.goto(`${stack.url}/console/endpoints/${idOf('failing')}/test`);
  await page.getByLabel('Input (JSON)').fill('{');
  await page.getByText('The input must be a JSON object.').first().waitFor();
  await page.getByLabel('Input (JSON)').fill('{}');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('FAILED').first().waitFor();
  await page.locator('.panel[role=status] a').click();
  await page.getByText('refused: <img').first().waitFor();
  const [retried] = await Promise.all([
    page.waitForResponse((response) => response.url().includes('/retry/')),
    page.getByRole('button', { name: 'Retry' }).click(),
  ]);
  t.is(retried.status(), 200);
  t.is(await hacked(page), undefined);
});

serial(`jobs are filtered, opened, cancelled; a purge says how many and asks first${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const waiting = await Promise.all([1, 2, 3].map((n) => stack.run(idOf('paused'), { n, mark: n === 2 ? 'needle' : 'hay' })));
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  const jobs = page.getByRole('region', { name: 'Jobs' });
  await jobs.getByRole('link').nth(2).waitFor();
  await checkAccessibility(t, page, 'jobs');
  await page.getByLabel('ID, or text in input or error').fill('NEEDLE');
  await jobs.getByRole('link', { name: waiting[1] ?? '' }).waitFor();
  await jobs.getByRole('link', { name: waiting[0] ?? '' }).waitFor({ state: 'detached' });
  const states = page.getByRole('navigation', { name: 'Status' });
  await states.getByRole('link', { name: 'failed' }).click();
  await page.getByText('No jobs.').waitFor();
  await states.getByRole('link', { name: 'All' }).click();
  await jobs.getByRole('link').first().click();
  await page.getByText('Waiting: PAUSED').waitFor();
  await page.getByRole('button', { name: 'Cancel job' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
  t.is((await stack.status(idOf('paused'), waiting[1] ?? '')).status, 'IN_QUEUE');
  await page.getByRole('button', { name: 'Cancel job' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click();
  await page.getByText('CANCELLED').first().waitFor();
  await page.goto(`${stack.url}/console/endpoints/${idOf('paused')}/jobs`);
  await page.getByRole('button', { name: 'Purge queue' }).click();
  await page.getByRole('dialog').getByText('2 waiting jobs end as CANCELLED').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Purge queue' }).click();
  await page.getByText('2 jobs cancelled.').waitFor();
});

serial(`what matches is cancelled in the background, after its count was confirmed${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await Promise.all([1, 2, 3, 4].map((n) => stack.run(idOf('paused'), { n, mark: n === 2 ? 'stays' : 'goes' })));
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  await page.getByLabel('ID, or text in input or error').fill('goes');
  await page.getByRole('button', { name: 'Retry matching' }).click();
  await page.getByRole('dialog').getByText('0 failed or timed-out jobs').waitFor();
  t.true(await page.getByRole('dialog').getByRole('button', { name: 'Retry matching' }).isDisabled(), 'there is nothing to do');
  await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
  await page.getByRole('button', { name: 'Cancel matching' }).click();
  await page.getByRole('dialog').getByText('3 queued or running jobs end as CANCELLED').waitFor();
  await checkAccessibility(t, page, 'the confirmation of an operation');
  await page.getByRole('dialog').getByRole('button', { name: 'Keep' }).click();
  t.is((await stack.health(idOf('paused'))).jobs.inQueue, 4, 'nothing happens without a confirmation');
  await page.getByRole('button', { name: 'Cancel matching' }).click();
  await page.getByRole('dialog').getByText('3 queued or running').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel matching' }).click();
  await page.getByLabel('Operations on many jobs').getByText('3 changed').waitFor();
  t.is((await stack.health(idOf('paused'))).jobs.inQueue, 1);
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
  await page.getByRole('navigation', { name: 'Status' }).getByRole('link', { name: 'failed' }).click();
  await becomes(t, () => page.getByRole('button', { name: 'Cancel matching' }).getAttribute('aria-disabled'), 'true');
});

serial(`plots of an endpoint say what happened, in words, too${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'hostile' }) });
  const line = row.getByRole('img', { name: /jobs in the last hour/ });
  await line.waitFor();
  const steps = await line.locator('.step title').allTextContents();
  t.true(steps.length > 20 && steps.every((step) => /^\d\d:\d\d [AP]M: \d+ jobs, \d+ failed$/.test(step)), steps.join('\n'));
  await page.getByRole('link', { name: 'hostile' }).click();
  await page.getByRole('img', { name: /^Jobs: [1-9]\d* submitted, \d+ completed/ }).waitFor({ timeout: 60_000 });
  for (const title of ['Queue', 'Delay', 'Execution', 'Workers', 'Cold starts'])
    await page.getByRole('img', { name: new RegExp(`^${title}: `) }).waitFor();
  await becomes(t, () => page.locator('.plot canvas').count(), 6);
  await checkAccessibility(t, page, 'plots');
  await page.getByLabel('Last').selectOption('90 days');
  await page
    .getByRole('img', { name: /in steps of 6 h/ })
    .first()
    .waitFor();
  await page.getByRole('button', { name: /theme$/ }).click();
  await checkAccessibility(t, page, 'plots in the other theme');
});

serial(`an output of 5 MB is not loaded into the page${SKIPPED}`, async (t) => {
  const job = await stack.run(idOf('large'), {});
  await stack.ended(idOf('large'), job);
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('large')}/jobs/${job}`);
  await page.getByText('4.8 MiB: too large to show.').waitFor();
  t.true((await page.content()).length < 200_000);
});

serial(`settings are changed, and a refused value is shown at its field${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/settings`);
  const most = page.getByLabel('idleTimeout');
  await most.fill('99999');
  await page.getByRole('button', { name: 'Save 1 changes' }).click();
  await page.getByRole('alert').getByText('must be').waitFor();
  await becomes(t, () => most.getAttribute('aria-invalid'), 'true');
  await checkAccessibility(t, page, 'settings');
  await most.fill('77');
  await page.getByRole('button', { name: 'Save 1 changes' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByLabel('Name', { exact: true }).fill('TOKEN');
  await page.getByLabel('Value', { exact: true }).fill('secret');
  await page.getByRole('button', { name: 'Set', exact: true }).click();
  await page.locator('li', { hasText: 'TOKEN' }).waitFor();
  t.true((await stack.tool('endpoints', 'get', 'paused')).includes('77'));
});

serial(`keys, accounts and join tokens are created once, shown once, and revoked after a question${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, '/console/keys');
  await page.getByLabel('Name').fill('reader');
  await page.getByLabel('Scope').selectOption('READ_ONLY');
  await page.getByRole('button', { name: 'Create key' }).click();
  const text = await page.locator('.panel[role=status] code').innerText();
  t.regex(text, /^cap_/);
  await checkAccessibility(t, page, 'keys');

  // The holder of that key sees and cannot act; its session ends with it.
  const reader = await openPage(t, browser, stack.url);
  await signIn(reader, stack.url, text, `/console/endpoints/${idOf('hostile')}`);
  const remove = reader.getByRole('button', { name: 'Delete endpoint' });
  await becomes(t, () => remove.getAttribute('aria-disabled'), 'true');
  await remove.click({ force: true });
  t.is(await reader.getByRole('dialog').count(), 0);
  t.is(await reader.getByRole('link', { name: 'Service' }).count(), 0);

  const row = page.getByRole('row', { name: /reader/ });
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await row.waitFor({ state: 'detached' });
  await reader.getByText('the session has ended; sign in again').waitFor();

  await page.goto(`${stack.url}/console/service`);
  await page.getByLabel('New account').fill('team');
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByText('Its first key. Save it').waitFor();
  await page.getByRole('button', { name: 'Create join token' }).click();
  await page.getByText('CAPSTAN_JOIN_TOKEN=').waitFor();
  await checkAccessibility(t, page, 'service');
});

serial(`nodes are drained and resumed, after saying what that does${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, '/console/nodes');
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  const remove = page.getByRole('button', { name: 'Remove' });
  await until('the page knows its worker', async () => (await remove.getAttribute('aria-disabled')) === 'true');
  await becomes(t, () => remove.getAttribute('title'), 'Drain it first: it has workers.');
  await page.getByRole('button', { name: 'Drain' }).click();
  await page.getByRole('dialog').getByText('gets no new work').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await page.getByText('draining', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('dialog').getByText('gets new work again').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await page.getByText('connected', { exact: true }).waitFor();
  await checkAccessibility(t, page, 'nodes');
});

for (const [theme, width] of [
  ['dark', 390],
  ['light', 390],
  ['dark', 1280],
  ['light', 1280],
] as const) {
  serial(`every page fits ${width} pixels and has enough contrast in the ${theme} theme${SKIPPED}`, async (t) => {
    const page = await openPage(t, browser, stack.url, { colorScheme: theme, viewport: { width, height: 844 } });
    await signIn(page, stack.url, stack.apiKey);
    const endpoint = `/endpoints/${idOf('hostile')}`;
    const [node] = JSON.parse(await stack.tool('node', 'list', '--json')) as { id: string }[];
    const job = await stack.run(idOf('hostile'), { list: [1, { deep: true }] });
    await stack.ended(idOf('hostile'), job);
    for (const path of [
      '/',
      endpoint,
      `${endpoint}/jobs`,
      `${endpoint}/jobs/${job}`,
      `/endpoints/${idOf('tenant')}`,
      `/endpoints/${idOf('tenant')}/test`,
      `${endpoint}/test`,
      `${endpoint}/logs`,
      `${endpoint}/settings`,
      `${endpoint}/releases`,
      '/nodes',
      `/nodes/${node?.id ?? ''}`,
      '/webhooks',
      '/keys',
      '/account',
      '/service',
    ]) {
      await page.goto(`${stack.url}/console${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.getByText('Loading…').first().waitFor({ state: 'detached' });
      await becomes(t, () => page.evaluate('document.documentElement.dataset.theme'), theme);
      t.deepEqual(await page.evaluate(WIDER_THAN_SCREEN), [], `${path} is wider than the screen`);
      await checkAccessibility(t, page, `${path} in the ${theme} theme`);
    }
  });
}

serial(`what changes is shown at once, over one stream for all tabs${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const streams: string[] = [];
  page.context().on('request', (request) => {
    if (request.url().endsWith('/api/events')) streams.push(request.url());
  });
  const first = page.waitForResponse((response) => response.url().endsWith('/api/events'));
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}`);
  await first;
  const other = await page.context().newPage();
  await other.goto(`${stack.url}/console/endpoints/${idOf('paused')}/jobs`);
  await other.getByRole('heading', { level: 1, name: 'paused' }).waitFor();
  const job = await stack.run(idOf('paused'), { live: true });
  await other.getByRole('link', { name: job }).waitFor();
  await page.bringToFront();
  await page.locator('.facts div', { hasText: 'In queue' }).getByText('1', { exact: true }).waitFor();
  t.is(streams.length, 1);
  // Another tab takes over when the one with the stream closes.
  await page.close();
  await until('the other tab follows', () => streams.length > 1);
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
  await other.bringToFront();
  await other
    .getByRole('row', { name: new RegExp(job) })
    .getByText('CANCELLED')
    .waitFor();
});

serial(`followed lines are pushed; a hidden page waits for nothing, and misses nothing${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const waiting = logWaits(page);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}/logs`);
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  await page.getByLabel('Text').fill('line <img');
  const lines = page.getByRole('log', { name: 'Log lines' }).locator('div');
  // The lines of before the filter go when those that match arrive, and then the next ones are waited for.
  await until('the matching lines are shown', async () => {
    const texts = await lines.allTextContents();
    return texts.length > 0 && texts.every((text) => text.includes('line <img')) && waiting.open === 1;
  });
  const before = await lines.count();
  const asked = waiting.all;
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  await lines.nth(before).waitFor();
  t.true(waiting.all <= asked + 3, 'its wait ended with the line; nobody polled for it');
  t.is(waiting.most(), 1);
  await show(page, false);
  await until('nothing waits', () => waiting.open === 0);
  const whileHidden = waiting.all;
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  await becomes(t, () => lines.count(), before + 1);
  t.is(waiting.all, whileHidden);
  await show(page, true);
  await lines.nth(before + 1).waitFor();
  await becomes(t, () => lines.count(), before + 2, 'each line once');
  await page.getByLabel('Follow').uncheck();
  await until('nothing waits', () => waiting.open === 0);
  await page.getByLabel('Follow').check();
  await until('a request waits', () => waiting.open === 1);
  await page.getByRole('link', { name: 'Settings' }).click();
  await until('nothing waits', () => waiting.open === 0);
  // A gateway that is away is asked again.
  await page.context().setOffline(true);
  await page.getByRole('link', { name: 'Logs' }).click();
  await page.getByRole('alert').getByText('The gateway cannot be reached.').waitFor();
  await page.context().setOffline(false);
  await lines.nth(before).waitFor();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await page.getByLabel('Regular expression').check();
  await page.getByLabel('Regular expression (RE2)').fill('(');
  await page
    .getByRole('alert')
    .getByText(/^pattern: /)
    .waitFor();
});

serial(`ten tabs that follow leave connections for everything else${SKIPPED}`, async (t) => {
  const first = await openPage(t, browser, stack.url);
  await signIn(first, stack.url, stack.apiKey, `/console/endpoints/${idOf('words')}/logs`);
  const tabs = [first, ...(await Promise.all(Array.from({ length: 9 }, () => first.context().newPage())))];
  const waiting = logWaits(...tabs);
  for (const tab of tabs) {
    await tab.goto(`${stack.url}/console/endpoints/${idOf('words')}/logs`);
    await tab.getByRole('heading', { level: 1, name: 'words' }).waitFor();
  }
  await until('some wait', () => waiting.open > 1);
  for (const tab of tabs) {
    await tab.getByRole('link', { name: 'Settings' }).click();
    await tab.getByRole('button', { name: /^Save/ }).first().waitFor();
  }
  t.true(waiting.most() >= 1 && waiting.most() <= 3, `${waiting.most()} waited at once`);
});

serial(
  `an unknown id and an unknown page say so; a gateway that is away is said, and the page goes on when it is back${SKIPPED}`,
  async (t) => {
    const page = await openPage(t, browser, stack.url);
    await signIn(page, stack.url, stack.apiKey, '/console/endpoints/none');
    await page.getByText('There is no endpoint with this ID.').waitFor();
    await page.goto(`${stack.url}/console/none`);
    await page.getByText('There is no page at this address.').waitFor();
    await page.goto(`${stack.url}/console/endpoints/${idOf('hostile')}/jobs/none`);
    await page.getByText('This job does not exist (any more)').waitFor();
    await page.goto(`${stack.url}/console/nodes`);
    await page.getByText('connected').waitFor();
    await page.context().setOffline(true);
    await page.getByRole('alert').getByText('The gateway cannot be reached.').waitFor();
    await page.getByText('connected').waitFor();
    await page.context().setOffline(false);
    await page.getByRole('alert').waitFor({ state: 'detached' });
    t.pass();
  },
);
