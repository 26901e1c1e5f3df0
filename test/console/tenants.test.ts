/** What pages of tenants, in the path form and on hosts of the same site, can do with the session of the console: nothing. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser } from 'playwright-core';

import { Stack } from '../support/stack.ts';
import { browserPath, buildConsole, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

let stack: Stack;
let browser: Browser;
let tenant: string;

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    [stack, browser] = await Promise.all([Stack.start(), openBrowser()]);
    tenant = (await stack.deploy(join(import.meta.dirname, 'app'))).get('tenant') ?? '';
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

for (const form of ['path', 'host'] as const) {
  serial(`a tenant's page in the ${form} form neither reads nor uses the session${SKIPPED}`, async (t) => {
    const { port } = new URL(stack.url);
    const gateway = `http://localhost:${port}`;
    // It may ask what it likes.
    const page = await openPage(t, browser, gateway, {});
    await signIn(page, gateway, stack.apiKey);
    const [cookie] = await page.context().cookies();
    t.like(cookie, { name: 'capstan_session', path: '/console', httpOnly: true, sameSite: 'Strict' });
    const own = form === 'path' ? `${gateway}/lb/${tenant}` : `http://${tenant}.lb.localhost:${port}`;
    const visit = await page.context().newPage();
    await visit.goto(`${own}/page?gateway=${encodeURIComponent(gateway)}`);
    await visit.waitForFunction('document.title.startsWith("{")');
    const tries = JSON.parse(await visit.title()) as Readonly<Record<string, string>>;
    t.regex(tries['cookie'] ?? '', /^(cookies: |refused: SecurityError)$/);
    t.regex(tries['with the header'] ?? '', /^refused: /);
    t.regex(tries['as a simple request'] ?? '', /^(opaque|refused: \w+)$/);
    t.is(tries['frame'], 'refused');
    // What reached the tenant's code.
    const seen = await visit.locator('#headers').innerText();
    t.false(seen.includes('capstan_session') || seen.includes('ses_'), seen);
    // The session is still there, and the console may use it.
    await page.reload();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
  });
}
