/** What pages say about the age of what they show: live, or since when not, and why (console/src/api/freshness.ts). */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import type { Browser, Page } from 'playwright-core';

import { freePort } from '../support/free-port.ts';
import { Stack } from '../support/stack.ts';
import {
  becomes,
  browserPath,
  buildConsole,
  checkAccessibility,
  closeBrowser,
  openBrowser,
  openPage,
  shown,
  signIn,
  SKIPPED,
} from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

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

/** Waits until the page says that it is not live and why, in its tab and by its data, too. */
async function notLive(t: ExecutionContext, page: Page, reason: string): Promise<void> {
  await shown(t, page.getByRole('status').filter({ hasText: `Not live: ${reason}` }));
  const look = `({
    title: document.title.startsWith('⚠ Not live – '),
    icon: document.querySelector('link[rel=icon]').getAttribute('href'),
    isGrey: document.querySelector('main').classList.contains('stale'),
  })`;
  await becomes<unknown>(t, () => page.evaluate(look), { title: true, icon: './icon-stale.svg', isGrey: true });
}

serial(`a paused scheduler shows, with the age of the data, on every page${SKIPPED}`, async (t) => {
  const page = await openLive(t, '/');
  await page.getByRole('link', { name: 'hostile' }).waitFor();
  stack.signal('scheduler', 'SIGSTOP');
  try {
    await notLive(t, page, 'The scheduler does not respond.');
    await page.getByText(/What is shown is \d+ s old, from /).waitFor();
    await becomes(t, () => page.getByRole('link', { name: 'hostile' }).count(), 1, 'what was known stays');
    await checkAccessibility(t, page, 'a page that is not live');
    for (const name of ['Nodes', 'Webhooks', 'API keys', 'Account', 'Overview']) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
      await notLive(t, page, 'The scheduler does not respond.');
    }
    await page.getByRole('link', { name: 'hostile' }).click();
    await page.getByRole('button', { name: 'Try again' }).first().waitFor();
    await becomes(t, () => page.getByText('Loading…').count(), 0, 'nothing loads for ever');
  } finally {
    stack.signal('scheduler', 'SIGCONT');
  }
  await page.getByRole('button', { name: 'Try again' }).first().click();
  await page.getByText('In progress', { exact: true }).waitFor();
  await live(page);
  const tab = `[document.title, document.querySelector('link[rel=icon]').getAttribute('href')]`;
  await becomes<unknown>(t, () => page.evaluate(tab), ['hostile – Capstan', './icon.svg']);
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
    for (const tab of [page, other]) await notLive(t, tab, 'The gateway cannot be reached.');
  } finally {
    stack.signal('up', 'SIGCONT');
  }
  for (const tab of [page, other]) await live(tab);
});

serial(`a paused gateway shows, and its requests end as errors with a retry${SKIPPED}`, async (t) => {
  const page = await openLive(t, '/');
  stack.signal('gateway', 'SIGSTOP');
  try {
    await notLive(t, page, 'The gateway does not respond.');
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByText('Loading…').waitFor();
    await page.getByText('The gateway did not answer within 12 s.').first().waitFor();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
  } finally {
    stack.signal('gateway', 'SIGCONT');
  }
  await live(page);
  await page.getByRole('table').getByText('OPERATOR').first().waitFor();
  await becomes(t, () => page.getByRole('button', { name: 'Try again' }).count(), 0);
});
