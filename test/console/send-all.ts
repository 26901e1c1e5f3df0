/** Presses Send on the operations of a page that shows an OpenAPI document, each as it is shown first. */
import type { Page } from 'playwright-core';

/** A screen of the page, pixels. Operations are drawn when they are near. */
const SCREEN = 600;
const MAX_SCREENS = 200;

export interface Sent {
  /** `get /day/{day}`. */
  readonly operation: string;
  readonly status: number;
  readonly request: string;
  readonly response: string;
}

/** `isWanted`: by the name of the operation, `post /v2/{endpointId}/run`. */
export async function sendAll(page: Page, isWanted: (operation: string) => boolean = () => true): Promise<Sent[]> {
  const sent = new Map<string, Sent>();
  const seen = new Set<string>();
  await page
    .getByRole('button', { name: /Test Request/ })
    .first()
    .waitFor();
  for (let n = 0; n < MAX_SCREENS; n += 1) {
    for (const text of await page.getByRole('button', { name: /Test Request/ }).allTextContents()) {
      const operation = /\((.*)\)/.exec(text)?.[1] ?? '';
      if (seen.has(operation)) continue;
      seen.add(operation);
      if (isWanted(operation)) sent.set(operation, await send(page, operation));
    }
    if (await scrolledDown(page)) break;
  }
  return [...sent.values()];
}

async function send(page: Page, operation: string): Promise<Sent> {
  await page
    .getByRole('button', { name: /Test Request/ })
    .filter({ hasText: `(${operation})` })
    .click();
  const dialog = page.getByRole('dialog');
  const button = dialog.getByRole('button', { name: /^Send \w+ request to/ });
  await button.waitFor();
  const received = page.waitForResponse((response) => ['fetch', 'xhr'].includes(response.request().resourceType()));
  await button.click();
  const response = await received;
  const request = response.request();
  const found = {
    operation,
    status: response.status(),
    request: `${request.method()} ${request.url()} ${request.postData() ?? ''}`,
    response: await response.text(),
  };
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  return found;
}

/** Scrolls by a screen; true at the end of the page. */
async function scrolledDown(page: Page): Promise<boolean> {
  const before = await page.evaluate<number>('scrollY');
  await page.evaluate(`scrollBy({ top: ${SCREEN}, behavior: 'instant' })`);
  // What comes into view is drawn in a frame after this one.
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))');
  return (await page.evaluate<number>('scrollY')) === before;
}
