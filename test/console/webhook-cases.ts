/** What the page of webhooks and a job's page promise of deliveries; the cases run on the stack of the file that imports them. */
import type { TestFn } from 'ava';
import type { Browser } from 'playwright-core';

import { Receiver } from '../support/receiver.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { becomes, checkAccessibility, openPage, signIn, SKIPPED } from './browser.ts';

/** What runs before the cases do. */
export interface Site {
  readonly stack: Stack;
  readonly browser: Browser;
  readonly idOf: (name: string) => string;
}

export function webhookCases(serial: TestFn | TestFn['skip'], site: () => Site): void {
  serial(`a failed webhook is in the job's timeline and is sent again from its page${SKIPPED}`, async (t) => {
    const { stack, browser, idOf } = site();
    const page = await openPage(t, browser, stack.url);
    let status = 500;
    const receiver = await Receiver.open(t, [(response) => void response.writeHead(status).end()]);
    const body = JSON.stringify({ input: { text: 'one two' }, webhook: receiver.url('/hook?%3Cimg%20src=x%3E') });
    const { id } = (await (await stack.call(`/v2/${idOf('words')}/run`, { method: 'POST', body })).json()) as { id: string };
    await stack.ended(idOf('words'), id);
    await signIn(page, stack.url, stack.apiKey, `/console/endpoints/${idOf('words')}/jobs/${id}`);
    await page.getByText('2 chunks').waitFor();
    await page.getByText(/Webhook(: next try .* failed| given up after 3 tries)/).waitFor();
    await page.goto(`${stack.url}/console/webhooks`);
    const row = page.getByRole('row', { name: new RegExp(id) });
    await row.waitFor();
    await checkAccessibility(t, page, 'webhooks');
    const before = receiver.received.length;
    status = 200;
    await row.getByRole('button', { name: 'Send again' }).click();
    await until('the webhook is sent again', () => receiver.received.length > before);
    await row.waitFor({ state: 'detached' });
    await page.goto(`${stack.url}/console/endpoints/${idOf('words')}/jobs/${id}`);
    await page.getByText('Webhook delivered').waitFor();
    t.is(await page.evaluate('globalThis.hacked'), undefined);
  });

  serial(`webhooks are listed newest first, page by page${SKIPPED}`, async (t) => {
    const { stack, browser, idOf } = site();
    const page = await openPage(t, browser, stack.url);
    const receiver = await Receiver.open(t, [(response) => void response.writeHead(500).end()]);
    const body = JSON.stringify({ input: { text: 'one' }, webhook: receiver.url('/hook') });
    const jobs: string[] = [];
    for (let n = 0; n < 55; n++) {
      const reply = await stack.call(`/v2/${idOf('words')}/run`, { method: 'POST', body });
      jobs.push(((await reply.json()) as { id: string }).id);
    }
    for (const job of jobs) await stack.ended(idOf('words'), job);
    await signIn(page, stack.url, stack.apiKey, '/console/webhooks');
    const rows = page.getByRole('table').locator('tbody tr');
    const older = page.getByRole('button', { name: 'Older' });
    const newer = page.getByRole('button', { name: 'Newer' });
    await rows.nth(49).waitFor();
    const shown = async (): Promise<string[]> => (await rows.locator('td:first-child').allInnerTexts()).map((id) => id.split('_')[0] ?? '');
    await becomes(t, shown, jobs.slice(5).toReversed());
    await becomes(t, () => newer.isDisabled(), true);
    await older.focus();
    await page.keyboard.press('Enter');
    await page.getByText(jobs[4] ?? '').waitFor();
    await becomes(t, shown, jobs.slice(0, 5).toReversed());
    await becomes(t, () => older.isDisabled(), true);
    await checkAccessibility(t, page, 'the last page of webhooks');
    await newer.click();
    await page.getByText(jobs[54] ?? '').waitFor();
    await becomes(t, () => rows.count(), 50);
  });
}
