/** A browser for tests: Debian's Chromium, driven by playwright-core. */
import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import type { ExecutionContext } from 'ava';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';

const CLOSE_MS = 10_000;
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
  t.teardown(() => context.close());
  const page = await context.newPage();
  page.on('pageerror', (error) => t.fail(`a script failed: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content.Security.Policy|Trusted/i.test(message.text())) t.fail(message.text());
  });
  const { host } = new URL(url);
  page.on('request', (request) => {
    const asked = request.url();
    if (/^(https?|wss?):/.test(asked) && new URL(asked).host !== host) t.fail(`the page asked another host: ${asked}`);
  });
  return page;
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
