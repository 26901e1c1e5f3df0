/** What the console promises to those who have it open all day: addresses that can be shared, history, groups of failures. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import type { Browser } from 'playwright-core';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { becomes, browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';

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
  const entries = await page.evaluate('history.length');
  await page.getByLabel('ID, or text in input or error').pressSequentially('needle');
  await table.getByRole('link', { name: jobs[51] ?? '' }).waitFor({ state: 'detached' });
  t.is(await page.evaluate('history.length'), entries, 'Back does not go through what was typed letter by letter');
  await table.getByRole('link', { name: jobs[3] ?? '' }).click();
  await page.getByText('Waiting: PAUSED').waitFor();
  await page.goBack();
  await table.getByRole('link', { name: jobs[3] ?? '' }).waitFor();
  await becomes(t, () => table.getByRole('row').count(), 2, 'the title and the job that matches');
  const shared = page.url();

  const other = await page.context().newPage();
  await other.goto(shared);
  await other.getByRole('link', { name: jobs[3] ?? '' }).waitFor();
  await becomes(t, () => other.getByLabel('ID, or text in input or error').inputValue(), 'needle');
  await other.goto(`${stack.url}/console/endpoints/${idOf('paused')}?range=banana`);
  const last = other.getByLabel('Last');
  await becomes(t, () => last.inputValue(), '1h', 'an unknown range is the first one');
  await last.selectOption('7 days');
  await last.selectOption('90 days');
  await other.goBack();
  await other.waitForURL(/range=7d/);
  await becomes(t, () => last.inputValue(), '7d');
  await other.goto(`${stack.url}/console/?filter=hos`);
  await other.getByRole('region', { name: 'Endpoints' }).first().getByRole('link', { name: 'hostile' }).waitFor();
  await becomes(t, () => other.getByRole('region', { name: 'Endpoints' }).first().getByRole('link', { name: 'paused' }).count(), 0);
  await stack.call(`/v2/${idOf('paused')}/purge-queue`, { method: 'POST' });
});

serial(`a range of time is dragged over a plot, and one that is none is not shown${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}`);
  const plot = page.locator('.plot .u-over').first();
  await plot.scrollIntoViewIfNeeded();
  const { x = 0, y = 0, width = 0 } = (await plot.boundingBox()) ?? {};
  const entries = Number(await page.evaluate('history.length'));
  await page.mouse.move(x + width / 4, y + 20);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + 30, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=\d+&to=\d+/);
  t.is(await page.evaluate('history.length'), entries + 1, 'one plot of all that move together changes the range');
  const { searchParams } = new URL(page.url());
  const minutes = (Number(searchParams.get('to')) - Number(searchParams.get('from'))) / 60_000;
  t.true(minutes > 13 && minutes < 17, `a quarter of an hour: ${minutes} min`);
  await page.getByRole('button', { name: 'Show the last 1 hour' }).click();
  await page.waitForURL((url) => !url.searchParams.has('from'));
  for (const hostile of ['from=1&to=1e300', 'from=1&to=Infinity', 'from=-5&to=7', 'from=9&to=7', 'from=NaN&to=x']) {
    await page.goto(`${stack.url}/console/endpoints/${idOf('paused')}?${hostile}`);
    await becomes(t, () => page.getByLabel('Last').inputValue(), '1h', hostile);
  }
  await page.goto(`${stack.url}/console/endpoints/${idOf('paused')}/logs?around=banana&of=javascript:x`);
  await page.getByLabel('Follow').waitFor();
});

serial(`views are saved under a name in this browser, and what else is stored there does no harm${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('failing')}/jobs?status=FAILED&columns=age`);
  const name = '<img src=x onerror="window.hacked=1">';
  const dialog = page.getByRole('dialog', { name: 'Views saved in this browser' });
  await page.getByRole('button', { name: 'Views' }).click();
  await dialog.getByText('None yet.').waitFor();
  await dialog.getByLabel('Name of what this page shows').fill(name);
  await page.keyboard.press('Enter');
  await dialog.getByRole('link', { name }).waitFor();
  await checkAccessibility(t, page, 'saved views');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await page.goto(`${stack.url}/console/nodes`);
  await page.getByRole('button', { name: 'Views' }).click();
  await dialog.getByRole('link', { name }).click();
  await page.waitForURL(new RegExp(`/endpoints/${idOf('failing')}/jobs\\?status=FAILED&columns=age$`));
  await dialog.waitFor({ state: 'detached' });
  await page.evaluate(`
    for (const key of Object.keys(localStorage).filter((each) => each.startsWith('capstan-views')))
      localStorage.setItem(key, JSON.stringify([
        ...JSON.parse(localStorage.getItem(key)),
        { name: 'script', path: 'javascript:window.hacked=1' }, { name: 'host', path: '//evil.example/' }, 7,
        ...Array.from({ length: 500 }, (_, n) => ({ name: 'many ' + n, path: '/' })),
      ]));
  `);
  await page.getByRole('button', { name: 'Views' }).click();
  await dialog.getByRole('link', { name: 'many 0', exact: true }).waitFor();
  t.is(await dialog.getByRole('listitem').count(), 50);
  t.is(await dialog.locator('a[href*="evil"], a[href^="javascript"]').count(), 0);
  await dialog.getByLabel('Name of what this page shows').fill('one more');
  await page.keyboard.press('Enter');
  await dialog.getByText('views: at most 50 are kept').waitFor();
  await dialog.getByRole('button', { name: `Delete ${name}` }).click();
  await dialog.getByRole('link', { name }).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByRole('button', { name: 'Views' }).click();
  await dialog.getByRole('link', { name: 'many 0', exact: true }).waitFor();
  await becomes(t, () => dialog.getByRole('link', { name }).count(), 0, 'it stays deleted');
  t.is(await page.evaluate('window.hacked'), undefined, 'a name is text');
});

serial(`plots are in the browser's language and zone, say what they do not know, and lead to the jobs of a minute${SKIPPED}`, async (t) => {
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  const page = await openPage(t, browser, stack.url, { locale: 'de-DE', timezoneId: 'Asia/Tokyo' });
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}`);
  await page.getByText('Times of Asia/Tokyo').waitFor();
  const jobs = page.locator('.plot').filter({ has: page.getByRole('img', { name: /^Jobs: [1-9]/ }) });
  await jobs.getByText('jobs in 10 s').waitFor();
  const legend = jobs.locator('.u-legend');
  await becomes(t, async () => /last, \d\d\.\d\d\.\d\d, \d\d:\d\d:\d\d/.test(await legend.innerText()), true, 'the last values are shown');
  t.regex(await legend.innerText(), /submitted:?\s*\d/);
  await checkAccessibility(t, page, 'plots with their steps');

  // By keyboard alone.
  const step = page.getByRole('slider', { name: 'Step of Jobs' });
  await step.focus();
  await page.keyboard.press('Home');
  await becomes(t, async () => /submitted 0, completed 0, failed 0/.test((await step.getAttribute('aria-valuetext')) ?? ''), true);
  await becomes(t, async () => /last, /.test(await legend.innerText()), false, 'the legend has the values of the step');
  await page.keyboard.press('End');
  for (let n = 0; n < 3; n++) await page.keyboard.press('ArrowLeft');
  await jobs.getByRole('button', { name: 'From here' }).press('Enter');
  await page.waitForURL(/from=\d+&to=\d+/);
  await page.getByRole('button', { name: 'Zoom out' }).press('Enter');
  await page.getByRole('button', { name: 'Earlier' }).press('Enter');
  await page.getByRole('button', { name: 'Later' }).press('Enter');
  await page.getByRole('button', { name: 'Show the last 1 hour' }).press('Enter');
  await page.waitForURL((url) => !url.searchParams.has('from'));
  await jobs.getByRole('button', { name: /^Jobs of \d\d:\d\d$/ }).press('Enter');
  await page.waitForURL(/\/jobs\?since=\d+0000&until=\d+0000$/);
  await page.goBack();

  // By a click.
  await jobs.locator('.u-over').click({ position: { x: 60, y: 40 } });
  await page.waitForURL(/\/jobs\?since=\d+0000&until=\d+0000$/);
  await page.getByText('No jobs.').waitFor();

  await page.goto(`${stack.url}/console/endpoints/${idOf('paused')}?from=${Date.now() - 7_200_000}&to=${Date.now() - 3_600_000}`);
  await page.getByRole('img', { name: 'Delay: no data in this range' }).waitFor();
  await page.getByText('No data in this range').first().waitFor();
});

serial(`plots show deployments and scaling decisions, and a tap reads a step${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url, { hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } });
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}`);
  await page.locator('.mark-key .deployment').waitFor();
  const jobs = page.locator('.plot').filter({ has: page.getByRole('img', { name: /^Jobs: [1-9]/ }) });
  const step = page.getByRole('slider', { name: 'Step of Jobs' });
  await jobs.locator('.u-over').tap({ position: { x: 60, y: 40 } });
  await becomes(t, async () => /last, /.test(await jobs.locator('.u-legend').innerText()), false, 'a tap chooses a step');
  t.false(page.url().includes('/jobs'));
  t.true((await jobs.getByRole('button', { name: /^Jobs of / }).boundingBox())?.height !== 0, 'what a click does is a button');
  await checkAccessibility(t, page, 'plots on a touch screen');
  const told = async (text: string): Promise<boolean> => {
    const last = Number(await step.getAttribute('max'));
    for (let at = last; at >= 0 && at > last - 60; at--) {
      await step.fill(String(at));
      if (((await step.getAttribute('aria-valuetext')) ?? '').includes(text)) return true;
    }
    return false;
  };
  t.true(await told('deployment 1 (deploy)'));
  t.true(await told('REQUEST: '));
});

serial(`a worker leads to its node, the node to its GPU and its endpoints, by their names${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await stack.ended(idOf('hostile'), await stack.run(idOf('hostile'), {}));
  const [node] = JSON.parse(await stack.tool('node', 'list', '--json')) as { id: string; name: string }[];
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}`);
  const workers = page.getByRole('region', { name: 'Workers' }).getByRole('table');
  await workers.getByRole('link', { name: node?.name ?? '', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: node?.name ?? '' }).waitFor();
  await page.getByRole('heading', { name: 'GPU history' }).waitFor();
  await page.getByText('No errors of the driver (Xid)').waitFor();
  await checkAccessibility(t, page, 'node');
  const own = page.getByRole('region', { name: `Workers of ${node?.name ?? ''}` });
  await own.getByRole('link', { name: 'hostile' }).waitFor();
  const worker = await own
    .getByRole('row', { name: /hostile/ })
    .getByRole('link')
    .first()
    .innerText();
  await own.getByRole('link', { name: worker }).click();
  await page.waitForURL(new RegExp(`/logs\\?worker=${worker}`));
  await page.getByRole('log', { name: 'Log lines' }).getByText('line <img').first().waitFor();
  await page.goto(`${stack.url}/console/nodes/none`);
  await page.getByText('There is no node with this ID').waitFor();
});

serial(`a log stays at its end until its reader leaves it, shows what surrounds a line, and filters streams${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const jobs = await Promise.all(Array.from({ length: 30 }, () => stack.run(idOf('hostile'), {})));
  for (const job of jobs) await stack.ended(idOf('hostile'), job);
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('hostile')}/logs`);
  const log = page.getByRole('log', { name: 'Log lines' });
  await log.locator('div').nth(59).waitFor();
  const distance = (): Promise<number> =>
    page.evaluate("(() => { const box = document.querySelector('.log'); return box.scrollHeight - box.scrollTop - box.clientHeight; })()");
  t.true((await distance()) < 16, 'it begins at its end');
  t.regex(await log.locator('div').first().innerText(), /^\d\d:\d\d:\d\d[.,]\d{3}/);
  await page.getByText(/lines; times of .+/).waitFor();
  await page.evaluate("document.querySelector('.log').scrollTop = 0");
  const job = await stack.run(idOf('hostile'), {});
  await stack.ended(idOf('hostile'), job);
  const toEnd = page.getByRole('button', { name: /^\d+ new lines? ↓$/ });
  await toEnd.waitFor();
  t.true((await distance()) > 16, 'the reader stays where they are');
  await toEnd.click();
  await toEnd.waitFor({ state: 'detached' });
  t.true((await distance()) < 16);
  await log
    .getByRole('link', { name: `job …${job.replace(/-[a-z]\w$/, '').slice(-4)}` })
    .first()
    .waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
  t.regex(await readFile(await download.path(), 'utf8'), /^\S+Z \w+ stdout line <img/m);

  await page.getByLabel('Stream').selectOption('stderr');
  await log.getByText('line <img').first().waitFor({ state: 'detached' });
  await log.getByText('json <img').first().waitFor();
  await checkAccessibility(t, page, 'logs');
  await log.getByRole('button').first().click();
  await page.getByText(/^The lines of worker \w+ around/).waitFor();
  await log.getByText('line <img').first().waitFor();
  t.true((await log.locator('.marked').count()) > 0);
  await page.goBack();
  await log.getByText('line <img').first().waitFor({ state: 'detached' });
  await becomes(t, () => page.getByLabel('Stream').inputValue(), 'stderr');
});

serial(`failed jobs are grouped by their error, and a group, or selected jobs, are retried${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  const jobs = await Promise.all(Array.from({ length: 3 }, () => stack.run(idOf('failing'), {})));
  for (const job of jobs) t.is((await stack.ended(idOf('failing'), job)).status, 'FAILED');
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('failing')}/jobs`);
  const groups = page.getByRole('region', { name: 'Failures by error' });
  await groups.getByText(/^3 × refused: /).click();
  await page.waitForURL(/text=refused/);
  await page
    .getByRole('navigation', { name: 'Status' })
    .getByRole('link', { name: /failed\s*3/ })
    .click();
  const table = page.getByRole('region', { name: 'Jobs', exact: true });
  await table.getByRole('link', { name: jobs[2] ?? '' }).waitFor();
  await page.getByText('Columns').click();
  await page.getByLabel('worker').check();
  await page.getByLabel('node', { exact: true }).check();
  await page.waitForURL(/columns=/);
  await table.getByRole('columnheader', { name: 'Node' }).waitFor();
  await checkAccessibility(t, page, 'jobs in groups');
  await groups.getByRole('button', { name: 'Retry these' }).click();
  await page.getByRole('dialog').getByText('3 failed or timed-out jobs return to the queue').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Retry these' }).click();
  await page.getByLabel('Operations on many jobs').getByText('3 changed').waitFor();
  for (const job of jobs) await until('the retry has failed', async () => (await stack.status(idOf('failing'), job)).status === 'FAILED');
  // Those that have failed again come to the list first.
  for (const job of jobs) await page.getByLabel(`Select ${job}`).waitFor();
  await page.getByRole('button', { name: /^Select all \d+ of this page$/ }).click();
  for (const job of jobs) await becomes(t, () => page.getByLabel(`Select ${job}`).isChecked(), true);
  await page.getByRole('button', { name: 'Clear selection' }).click();
  for (const job of jobs.slice(0, 2)) await page.getByLabel(`Select ${job}`).check();
  await page.getByRole('group', { name: 'Selected jobs' }).getByRole('button', { name: 'Retry 2' }).click();
  const retried: string[] = [];
  page.on('response', (response) => {
    if (response.url().includes('/retry/') && response.ok()) retried.push(response.url());
  });
  await page.getByRole('dialog').getByRole('button', { name: 'Retry 2' }).click();
  await until('both are retried', () => retried.length === 2);
  t.true(jobs.slice(0, 2).every((job) => retried.some((url) => url.endsWith(job))));
});

serial(`the activity page says who changed what, is filtered by its address, and is linked from what was changed${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await stack.tool('endpoints', 'set', 'paused', 'idleTimeout=17');
  const key = JSON.parse(await stack.tool('keys', 'create', 'reader', '--scope', 'read-only', '--json')) as { plaintext: string };
  await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('paused')}`);
  // Not that of the frame, which is there before the endpoint is read.
  await page.getByRole('main').getByRole('link', { name: 'Activity' }).click();
  await page.waitForURL(/activity\?object=default%2Fpaused/);
  const table = page.getByRole('region', { name: 'Activity' });
  const update = table.getByRole('row', { name: /updateEndpoint/ });
  await update.getByText('idleTimeout').waitFor();
  await update.getByText('17', { exact: true }).waitFor();
  await table.getByRole('row', { name: /deploy/ }).waitFor();
  t.is(await table.getByText('reader').count(), 0, 'other objects are not listed');
  await checkAccessibility(t, page, 'activity');
  await page.getByLabel('Action').selectOption('updateEndpoint');
  await page.waitForURL(/action=updateEndpoint/);
  await table.getByRole('row', { name: /deploy/ }).waitFor({ state: 'detached' });
  await page.goBack();
  await table.getByRole('row', { name: /deploy/ }).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
  const actions = (await readFile(await download.path(), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { action: string }).action);
  t.deepEqual(actions, ['updateEndpoint', 'deploy']);
  await update.getByRole('link', { name: 'default/paused' }).click();
  await page.getByRole('heading', { level: 1, name: 'paused' }).waitFor();

  await page.goto(`${stack.url}/console/keys`);
  await page.getByRole('region', { name: 'API keys' }).getByRole('link', { name: 'Activity' }).first().click();
  await page.waitForURL(/activity\?key=/);
  await table
    .getByRole('row', { name: /createApiKey/ })
    .or(page.getByText('No change.'))
    .first()
    .waitFor();

  const reader = await openPage(t, browser, stack.url);
  await signIn(reader, stack.url, key.plaintext, '/console/activity');
  await reader.getByText('This needs a key with the scope ALL or OPERATOR.').waitFor();
  t.is(await reader.getByRole('link', { name: 'Activity' }).count(), 0);
});
