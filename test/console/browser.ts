/** A browser for tests: Debian's Chromium, driven by playwright-core. */
import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual, promisify } from 'node:util';

import type { ExecutionContext } from 'ava';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from 'playwright-core';

const CLOSE_MS = 10_000;
/** What the console promises: an event shows within this, ms. A busy machine may take longer without being wrong. */
const SHOWN_MS = 3_000;
const BECOMES_TRIES = 200;
const BECOMES_PAUSE_MS = 50;
/** For what a page waits for; playwright's own 30 s are too few beside other tests. */
const WAIT_MS = 60_000;
const CHROMIUM = '/usr/bin/chromium';

/** Builds the console unless it is built. */
export async function buildConsole(): Promise<void> {
  await promisify(execFile)(process.execPath, [join(import.meta.dirname, '../../console/build.mjs')]);
}

/** Undefined where there is no browser. */
export const browserPath: string | undefined = (() => {
  try {
    accessSync(CHROMIUM, constants.X_OK);
    return CHROMIUM;
  } catch {
    return undefined;
  }
})();

/** What a test's name says where it is skipped. */
export const SKIPPED = browserPath === undefined ? ' (skipped: there is no /usr/bin/chromium)' : '';

export function openBrowser(): Promise<Browser> {
  // Tests may run as root, where Chromium's own sandbox refuses to start; they open pages of this host only.
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
}

/** Ends the browser; one that does not end in time is left to the end of this process, which kills it. */
export async function closeBrowser(browser: Browser | undefined): Promise<void> {
  await Promise.race([browser?.close(), pause(CLOSE_MS, undefined, { ref: false })]);
}

/** A page of its own session, which fails the test when a script fails or asks another host. */
export async function openPage(t: ExecutionContext, browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(WAIT_MS);
  const wrong: string[] = [];
  // An assertion in a listener may come when the test has ended.
  t.teardown(async () => {
    await context.close();
    if (wrong.length > 0) throw new Error(wrong.join('\n'));
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => wrong.push(`a script failed: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content.Security.Policy|Trusted/i.test(message.text())) wrong.push(message.text());
  });
  const { host } = new URL(url);
  page.on('request', (request) => {
    const asked = request.url();
    if (/^(https?|wss?):/.test(asked) && new URL(asked).host !== host) wrong.push(`the page asked another host: ${asked}`);
  });
  return page;
}

/** Waits for what an event must show, and says how long that took where it took longer than promised. */
export async function shown(t: ExecutionContext, awaited: Locator): Promise<void> {
  const startedMs = performance.now();
  await awaited.waitFor();
  const tookMs = performance.now() - startedMs;
  if (tookMs > SHOWN_MS) t.log(`shown after ${Math.round(tookMs)} ms, promised within ${SHOWN_MS}`);
}

/** Reads until what is read is what is expected, and asserts that. What a page shows, and its title, focus or count, change one after another. */
export async function becomes<T>(t: ExecutionContext, read: () => Promise<T>, expected: T, what?: string): Promise<void> {
  let last = await read();
  for (let n = 0; n < BECOMES_TRIES && !isDeepStrictEqual(last, expected); n++) {
    await pause(BECOMES_PAUSE_MS);
    last = await read();
  }
  t.deepEqual(last, expected, what);
}

export async function signIn(page: Page, url: string, key: string, path = '/console'): Promise<void> {
  await page.goto(`${url}${path}`);
  await page.getByLabel('API key').fill(key);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

/** Fails for what axe rates as serious or critical. */
export async function checkAccessibility(t: ExecutionContext, page: Page, what: string): Promise<void> {
  // Evaluated by the debugger, which the page's policy does not concern.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>('axe.run()');
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  t.deepEqual(
    serious.map(({ id, nodes }) => ({ id, html: nodes.map(({ html }) => html).slice(0, 3) })),
    [],
    `axe: ${what}`,
  );
}
