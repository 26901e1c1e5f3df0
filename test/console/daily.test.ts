/** What the console promises to those who have it open all day: addresses that can be shared, history, groups of failures. */
import { join } from 'node:path';

import test from 'ava';
import type { Browser } from 'playwright-core';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { Stack } from '../support/stack.ts';
import { browserPath, buildConsole, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

const GPU = { uuid: 'GPU-11111111-1111-4111-8111-111111111111', name: 'NVIDIA Test A', memoryMiB: 81_920, usedMemory: '40960' };

let stack: Stack;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';

if (browserPath !== undefined) {
  test.before(async () => {
    await buildConsole();
    [stack, browser] = await Promise.all([
      Stack.start({ CAPSTAN_WEBHOOK_ALLOW: '127.0.0.0/8' }, async (folder) => ({
        CAPSTAN_NVIDIA_SMI: await writeFakeSmi(folder, { gpus: [GPU] }),
      })),
      openBrowser(),
    ]);
    ids = await stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await stack?.close();
  });
}

serial(`filters, pages and ranges are in the address: Back returns to them, and others see the same${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const jobs: string[] = [];
  for (let n = 0; n < 52; n++) jobs.push(await stack.run(idOf('paused'), { mark: n === 3 ? 'needle' : 'hay' }));
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}/jobs`);
  const table = page.getByRole('region', { name: 'Jobs', exact: true });
  await table.getByRole('link', { name: jobs[51] ?? '' }).waitFor();
  await page.getByRole('button', { name: 'Older' }).click();
  await table.getByRole('link', { name: jobs[1] ?? '' }).waitFor();
  await page.goBack();
  await table.getByRole('link', { name: jobs[51] ?? '' }).waitFor();
  await page.goForward();
  await table.getByRole('link', { name: jobs[1] ?? '' }).waitFor();
  await page.reload();
  await table.getByRole('link', { name: jobs[1] ?? '' }).waitFor();
  await page.getByRole('button', { name: 'Newer' }).click();
  await table.getByRole('link', { name: jobs[51] ?? '' }).waitFor();
  await page.getByLabel('ID, or text in input or error').fill('needle');
  await page.keyboard.press('Enter');
  await table.getByRole('link', { name: jobs[51] ?? '' }).waitFor({ state: 'detached' });
  await table.getByRole('link', { name: jobs[3] ?? '' }).click();
  await page.getByText('Waiting: PAUSED').waitFor();
  await page.goBack();
  await table.getByRole('link', { name: jobs[3] ?? '' }).waitFor();
  t.is(await table.getByRole('row').count(), 2, 'the title and the job that matches');
  const shared = page.url();

  const other = await page.context().newPage();
  await other.goto(shared);
  await other.getByRole('link', { name: jobs[3] ?? '' }).waitFor();
  t.is(await other.getByLabel('ID, or text in input or error').inputValue(), 'needle');
  await other.goto(`${stack.url}/console/endpoints/${idOf('paused')}?range=banana`);
  const last = other.getByLabel('Last');
  t.is(await last.inputValue(), '1h', 'an unknown range is the first one');
  await last.selectOption('7 days');
  await last.selectOption('90 days');
  await other.goBack();
  await other.waitForURL(/range=7d/);
  t.is(await last.inputValue(), '7d');
  await other.goto(`${stack.url}/console/?filter=hos`);
  await other.getByRole('region', { name: 'Endpoints' }).first().getByRole('link', { name: 'hostile' }).waitFor();
  t.is(await other.getByRole('region', { name: 'Endpoints' }).first().getByRole('link', { name: 'paused' }).count(), 0);
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
});
