/** What pages say about the age of what they show: live, or since when not, and why (console/src/api/freshness.ts). */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import type { Browser, Page } from 'playwright-core';

import { freePort } from '../support/free-port.ts';
import { Stack } from '../support/stack.ts';
import { browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;
/** What is promised: an outage shows within this, ms. */
const SHOWN_MS = 3_000;

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    // A gateway that is started again has the address that pages know.
    [stack, browser] = await Promise.all([Stack.start({ CAPSTAN_HTTP_PORT: String(await freePort()) }), openBrowser()]);
    ids = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

/** A live page. */
async function openLive(t: ExecutionContext, path: string): Promise<Page> {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console${path}`);
  await live(page);
  return page;
}

async function live(page: Page): Promise<void> {
  await page.getByText('Live', { exact: true }).waitFor();
}

/** Waits until the page says that it is not live and why, and returns what its tab and its data look like then. */
async function notLive(page: Page, reason: string, timeout = SHOWN_MS): Promise<unknown> {
  await page
    .getByRole('status')
    .filter({ hasText: `Not live: ${reason}` })
    .waitFor({ timeout });
  return page.evaluate(`({
    title: document.title.startsWith('⚠ Not live – '),
    icon: document.querySelector('link[rel=icon]').getAttribute('href'),
    isGrey: document.querySelector('main').classList.contains('stale'),
  })`);
}

const NOT_LIVE = { title: true, icon: './icon-stale.svg', isGrey: true };

serial(`a paused scheduler shows within 3 s, with the age of the data, on every page${SKIPPED}`, async (t) => {
  const page = await openLive(t, '/');
  await page.getByRole('link', { name: 'hostile' }).waitFor();
  stack.signal('scheduler', 'SIGSTOP');
  try {
    t.deepEqual(await notLive(page, 'The scheduler does not respond.'), NOT_LIVE);
    await page.getByText(/What is shown is \d+ s old, from /).waitFor();
    t.is(await page.getByRole('link', { name: 'hostile' }).count(), 1, 'what was known stays');
    await checkAccessibility(t, page, 'a page that is not live');
    for (const name of ['Nodes', 'Webhooks', 'API keys', 'Account', 'Overview']) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
      t.deepEqual(await notLive(page, 'The scheduler does not respond.'), NOT_LIVE, name);
    }
    await page.getByRole('link', { name: 'hostile' }).click();
    await page.getByRole('button', { name: 'Try again' }).first().waitFor();
    t.is(await page.getByText('Loading…').count(), 0, 'nothing loads for ever');
  } finally {
    stack.signal('scheduler', 'SIGCONT');
  }
  await page.getByRole('button', { name: 'Try again' }).first().click();
  await page.getByText('In progress', { exact: true }).waitFor();
  await live(page);
  t.deepEqual(await page.evaluate(`[document.title, document.querySelector('link[rel=icon]').getAttribute('href')]`), [
    'hostile – Capstan',
    './icon.svg',
  ]);
});

serial(`a killed gateway shows at once in all tabs, which are live again with the next one${SKIPPED}`, async (t) => {
  const page = await openLive(t, `/endpoints/${ids.get('hostile') ?? ''}/jobs`);
  const other = await page.context().newPage();
  await other.goto(`${stack.url}/console/nodes`);
  await live(other);
  // The next one does not serve before it was seen that this one is away.
  stack.signal('up', 'SIGSTOP');
  try {
    stack.signal('gateway', 'SIGKILL');
    for (const tab of [page, other]) t.deepEqual(await notLive(tab, 'The gateway cannot be reached.'), NOT_LIVE);
  } finally {
    stack.signal('up', 'SIGCONT');
  }
  for (const tab of [page, other]) await live(tab);
});

serial(`a paused gateway shows within 3 s, and its requests end as errors with a retry${SKIPPED}`, async (t) => {
  const page = await openLive(t, '/');
  stack.signal('gateway', 'SIGSTOP');
  try {
    t.deepEqual(await notLive(page, 'The gateway does not respond.'), NOT_LIVE);
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByText('Loading…').waitFor();
    await page.getByText('The gateway did not answer within 12 s.').first().waitFor();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
  } finally {
    stack.signal('gateway', 'SIGCONT');
  }
  await live(page);
  await page.getByRole('table').getByText('OPERATOR').first().waitFor();
  t.is(await page.getByRole('button', { name: 'Try again' }).count(), 0);
});
