/** What the console says when things break: one incident a cause, within 3 s, with what to do at hand. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser } from 'playwright-core';

import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
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

const idOf = (name: string): string => ids.get(name) ?? '';

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

serial(`jobs of a paused endpoint are an incident with its action, counted in the title of every page${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  const section = page.getByRole('region', { name: 'Needs attention' });
  await section.getByText('Nothing.').waitFor();
  await stack.run(idOf('paused'), { n: 1 });
  const incident = section.getByRole('listitem').filter({ hasText: 'paused: it is paused (workersMax is 0), and 1 job waits' });
  await shown(t, incident);
  await becomes(t, () => page.title(), '(1) Overview – Capstan');
  await incident.getByText('Resume', { exact: true }).first().click();
  await incident.getByText('capstan endpoints set paused workersMax=1').waitFor();
  await checkAccessibility(t, page, 'incidents');
  await incident.getByText('What to do').click();
  await incident.getByRole('link', { name: 'docs/runbook.md#an-endpoint-is-paused-while-jobs-wait' }).click();
  await page.getByRole('heading', { name: 'An endpoint is paused while jobs wait' }).waitFor();
  await becomes(t, () => page.title(), '(1) Runbook – Capstan');
  await checkAccessibility(t, page, 'the runbook');
  await page.getByRole('link', { name: 'waiting-jobs.md' }).first().click();
  await page.getByRole('heading', { level: 1, name: /wait/i }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Runbook' }).waitFor();
  await page.getByRole('link', { name: 'Overview' }).click();
  await incident.getByText('Resume', { exact: true }).first().click();
  await incident.getByRole('link', { name: 'Resume' }).click();
  await page.getByLabel('workersMax').waitFor();
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
  await until('the title counts none', async () => (await page.title()) === 'paused – Capstan');
});

serial(`a killed host is one incident with what waits for it below, in the console and in the tool${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey);
  const section = page.getByRole('region', { name: 'Needs attention' });
  await section.getByText('Nothing.').waitFor();
  const before = await stack.run(idOf('hostile'), {});
  await stack.ended(idOf('hostile'), before);
  // The supervisor does not start it again before it was seen that it is gone.
  stack.signal('up', 'SIGSTOP');
  try {
    stack.signal('agent', 'SIGKILL');
    const gone = section
      .getByRole('listitem')
      .filter({ hasText: /is gone/ })
      .first();
    await shown(t, gone);
    await stack.run(idOf('hostile'), {});
    await section
      .getByText(/is gone.*: 1 endpoint, 1 job waits/)
      .first()
      .waitFor();
    await gone.getByText('1 effect').click();
    await gone.getByRole('link', { name: 'hostile' }).waitFor();
    await becomes(t, () => page.title(), '(1) Overview – Capstan', 'one incident');
    await gone.getByText('Remove', { exact: true }).first().click();
    await gone.getByText(/^capstan node remove .+ --force$/).waitFor();
    const failed = await t.throwsAsync(stack.tool('status'));
    const { stdout = '', code } = failed as Error & { stdout?: string; code?: number };
    t.is(code, 69);
    t.regex(
      stdout,
      /^attention {2}1\n {2}✗ .+ is gone.*: 1 endpoint, 1 job waits, since .+ \[NODE_DISCONNECTED\]\n {6}hostile: 1 job waits/m,
    );
    await page.goto(`${stack.url}/console/endpoints/${idOf('hostile')}/jobs/${before}`);
    await page
      .getByRole('region', { name: 'Log' })
      .getByText(/did not reply: lines that it has of this endpoint are missing/)
      .waitFor();
    t.is(await page.getByText('The job has printed nothing.').count(), 0, 'nobody knows that');
    await page.goto(`${stack.url}/console`);
  } finally {
    stack.signal('up', 'SIGCONT');
  }
  await section.getByText('Nothing.').waitFor();
});
