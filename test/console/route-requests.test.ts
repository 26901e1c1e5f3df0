/** The form for requests to load-balanced endpoints: what it sends, what it shows, and what neither side can do with it. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import type { Browser, Page } from 'playwright-core';

import { Stack } from '../support/stack.ts';
import { becomes, browserPath, buildConsole, checkAccessibility, closeBrowser, openBrowser, openPage, signIn, SKIPPED } from './browser.ts';
import { sendAll } from './send-all.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

interface Line {
  readonly kind: 'head' | 'body' | 'end';
  readonly status?: number;
  readonly headers?: readonly (readonly [string, string])[];
  readonly bytes?: string;
  readonly why?: string;
}

interface Echo {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

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

/** Signs in and returns the headers of a page's requests. */
async function session(key: string): Promise<Record<string, string>> {
  const own = { 'capstan-console': '/console', 'content-type': 'application/json' };
  const reply = await fetch(`${stack.url}/console/api/session`, { method: 'POST', headers: own, body: JSON.stringify({ apiKey: key }) });
  return { ...own, cookie: reply.headers.get('set-cookie')?.split(';', 1)[0] ?? '' };
}

const send = (headers: Record<string, string>, request: object, endpoint = idOf('web')): Promise<Response> =>
  fetch(`${stack.url}/console/api/lb/${endpoint}`, { method: 'POST', headers, body: JSON.stringify({ headers: [], ...request }) });

async function linesOf(response: Response): Promise<readonly Line[]> {
  return (await response.text())
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

function bodyOf(lines: readonly Line[]): Buffer {
  return Buffer.concat(lines.map(({ bytes = '' }) => Buffer.from(bytes, 'base64')));
}

const open = async (page: Page, key = stack.apiKey): Promise<void> => {
  await signIn(page, stack.url, key, `/console/endpoints/${idOf('web')}/test`);
  await page.getByLabel('Route').waitFor();
};

serial(`by keyboard: a route, its values, the response, and the same calls to paste${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url, { viewport: { width: 390, height: 844 } });
  await open(page);
  await page.getByLabel('Route').focus();
  await page.keyboard.type('GET /items');
  await page.getByText('Put a value in place of {id} in the path.').last().waitFor();
  await becomes(t, () => page.getByRole('button', { name: 'Send' }).getAttribute('aria-disabled'), 'true');
  await page.getByText('Complete the request above.').waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type("/items/7?big=true&it's=1");
  await page.keyboard.press('Tab');
  await page.keyboard.type('accept: application/json');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('status').getByText('200').waitFor();
  t.regex(await page.locator('.json').innerText(), /id: 7\s+big: true/);
  await checkAccessibility(t, page, 'test request of a load-balanced endpoint');
  t.true((await page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth')) === true);
  const pasted = (language: string): Promise<string> =>
    page
      .locator('.sample', { has: page.getByRole('heading', { name: language }) })
      .locator('pre')
      .innerText();
  const env = { ...process.env, SERVICE_API_KEY: stack.apiKey };
  const run = promisify(execFile);
  t.deepEqual(JSON.parse((await run('sh', ['-c', await pasted('curl')], { env })).stdout), { id: 7, big: true });
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', await pasted('TypeScript')], { env });
  t.is(stdout.trim(), '200 {"id":7,"big":true}');
  await run('python3', ['-c', `compile(${JSON.stringify(await pasted('Python'))}, 'sample', 'exec')`]);
});

serial(`a body and headers arrive as typed, with nothing of the console's own request${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await open(page);
  await page.getByLabel('Route').selectOption('POST /echo');
  await page.getByLabel('Headers').fill('content-type: text/plain\nX-Own: naïve');
  await page.getByLabel('Body').fill('é'.repeat(100_000));
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('The first 64 KiB of').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: /^Download/ }).click()]);
  const { method, target, headers, body } = JSON.parse(await readFile(await download.path(), 'utf8')) as Echo;
  t.like({ method, target, type: headers['content-type'], own: headers['x-own'] }, { method: 'POST', target: '/echo', type: 'text/plain' });
  t.is(body, 'é'.repeat(100_000), 'more than a worker takes at once');
  t.is(headers['content-length'], '200000');
  const seen = JSON.stringify(headers);
  for (const own of ['cookie', 'ses_', 'capstan', 'sec-fetch', 'user-agent', 'authorization', 'origin', 'referer'])
    t.false(seen.includes(own), `${own} in ${seen}`);
});

serial(`streams appear as they come and can be stopped; binary data is named${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await open(page);
  const log = page.getByRole('log', { name: 'Response body' });
  await page.getByLabel('Route').selectOption('GET /ticks');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await log.getByText('one').waitFor();
  t.false((await log.innerText()).includes('three'), 'the first part is shown before the last one comes');
  await log.getByText('three').waitFor();
  await page.getByLabel('Route').selectOption('GET /forever');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await log.getByText('data: 3').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped.').waitFor();
  await page.getByLabel('Route').selectOption('GET /picture');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('8 B of application/octet-stream').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download (8 B)' }).click()]);
  t.is(download.suggestedFilename(), 'response.bin');
});

serial(`a hostile page is text, and its cookies and redirects stay within the envelope${SKIPPED}`, async (t) => {
  const page = await openPage(t, browser, stack.url);
  await open(page);
  const [before] = await page.context().cookies();
  await page.getByLabel('Route').selectOption('GET /trap');
  const [request] = await Promise.all([
    page.waitForRequest(/\/api\/lb\//),
    page.getByRole('button', { name: 'Send', exact: true }).click(),
  ]);
  const response = await request.response();
  t.like(response?.headers(), {
    'content-type': 'application/octet-stream',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
  });
  for (const name of ['set-cookie', 'location', 'refresh', 'clear-site-data', 'x-hostile']) t.is(response?.headers()[name], undefined);
  await page.getByRole('status').getByText('302').waitFor();
  await page.getByRole('log', { name: 'Response body' }).getByText('<img src=x onerror').waitFor();
  t.is(await page.locator('main img, main script, iframe').count(), 0);
  t.is(await page.evaluate('globalThis.hacked'), undefined);
  t.deepEqual(await page.context().cookies(), [before]);
  t.regex(page.url(), /\/test$/);
  await checkAccessibility(t, page, 'the response of a hostile endpoint');
});

serial(`a response of 50 MB is cut off, and the endpoint goes on${SKIPPED}`, async (t) => {
  const headers = await session(stack.apiKey);
  const lines = await linesOf(await send(headers, { method: 'GET', path: '/huge' }));
  t.is(bodyOf(lines).length, 4 * 1024 * 1024);
  t.deepEqual(lines.at(-1), { kind: 'end', why: 'SIZE' });
  const page = await openPage(t, browser, stack.url);
  await open(page);
  await page.getByLabel('Route').selectOption('GET /huge');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('The console reads at most 4 MiB of it.').waitFor();
  await page.getByRole('button', { name: 'Download (4.0 MiB)' }).waitFor();
  // The abandoned requests hold no slot: as many as the worker has are answered together.
  const all = await Promise.all(Array.from({ length: 4 }, async () => linesOf(await send(headers, { method: 'GET', path: '/items/1' }))));
  for (const each of all) t.is(each[0]?.status, 200);
});

serial(`paths and headers of an attacker are refused by name, or mean a path of the endpoint${SKIPPED}`, async (t) => {
  const headers = await session(stack.apiKey);
  const refused: readonly (readonly [object, string])[] = [
    [{ method: 'GET', path: '//evil.example/x' }, 'path: must be a path of the endpoint'],
    [{ method: 'GET', path: '/\\evil.example/x' }, 'path: must be a path of the endpoint'],
    [{ method: 'GET', path: 'http://evil.example/x' }, 'path: must start with /'],
    [{ method: 'GET', path: 'items/1' }, 'path: must start with /'],
    [{ method: 'GET', path: '/x HTTP/1.1\r\nhost: evil' }, 'path: must not contain control characters'],
    [{ method: 'GET', path: `/${'x'.repeat(8_000)}` }, 'path: must have at most'],
    [{ method: 'CONNECT', path: '/' }, 'method: must be one of'],
    [{ method: 'GET /x', path: '/' }, 'method: must be one of'],
    [{ method: 'GET' }, 'path: must be a string'],
    [{ method: 'GET', path: '/', headers: { a: 'b' } }, 'headers: must be a list'],
    [{ method: 'GET', path: '/', headers: Array.from({ length: 51 }, () => ({ name: 'a', value: 'b' })) }, 'headers: must have at most'],
    ...(
      [
        ['x', 'a\r\nx-injected: 1', 'value: must be one line'],
        ['x', 'a\nb', 'value: must be one line'],
        ['x', '€', 'value: must be one line'],
        ['x: y', 'a', 'name: must be the name of a header'],
        ['x\r\ny', 'a', 'name: must be the name of a header'],
        ['', 'a', 'name: must be the name of a header'],
        ['Connection', 'x-own', 'name: connection cannot be set'],
        ['transfer-encoding', 'chunked', 'name: transfer-encoding cannot be set'],
        ['Upgrade', 'websocket', 'name: upgrade cannot be set'],
        ['Content-Length', '5', 'name: content-length cannot be set'],
        ['Host', 'evil.example', 'name: host cannot be set'],
        ['Cookie', 'a=b', 'name: cookie cannot be set'],
        ['X-Forwarded-For', '10.0.0.1', 'name: x-forwarded-for cannot be set'],
        ['Capstan-Console', '/console', 'name: capstan-console cannot be set'],
      ] as const
    ).map(([name, value, rule]) => [{ method: 'GET', path: '/', headers: [{ name, value }] }, rule] as const),
  ];
  for (const [request, rule] of refused) {
    const reply = await send(headers, request);
    const text = await reply.text();
    t.is(reply.status, 400, `${JSON.stringify(request)} ${text}`);
    t.true(text.includes(rule), `${rule}: ${text}`);
  }
  const target = async (path: string): Promise<string> =>
    (JSON.parse(bodyOf(await linesOf(await send(headers, { method: 'POST', path }))).toString()) as Echo).target;
  t.is(await target('/a/../../echo?q=../x'), '/echo?q=../x');
  t.is(await target('/%2e%2e/echo?a b=é#part'), '/echo?a%20b=%C3%A9');
  const described = await linesOf(await send(headers, { method: 'GET', path: '/openapi.json' }));
  t.true(Object.keys((JSON.parse(bodyOf(described).toString()) as { paths: object }).paths).includes('/items/{id}'));
  const outside = await linesOf(await send(headers, { method: 'GET', path: '/../../console/api/session' }));
  t.is(outside[0]?.status, 404, 'a path of the endpoint, which has no such route');
});

serial(`only keys that may call the endpoint send, and only from the console${SKIPPED}`, async (t) => {
  const { text: reader } = JSON.parse(await stack.tool('keys', 'create', 'reader', '--scope', 'read-only', '--json')) as { text: string };
  const request = { method: 'GET', path: '/items/1' };
  const readOnly = await session(reader);
  for (const endpoint of ['web', 'tenant']) t.is((await send(readOnly, request, idOf(endpoint))).status, 401, `${endpoint}, public or not`);
  const own = await session(stack.apiKey);
  t.is((await send(own, request, idOf('words'))).status, 404, 'a queue');
  t.is((await send(own, request, 'none')).status, 404);
  t.is((await send({ ...own, origin: 'https://evil.example' }, request)).status, 401);
  const { 'capstan-console': _, ...bare } = own;
  t.is((await send(bare, request)).status, 401);
  t.is((await send({ ...own, cookie: '' }, request)).status, 401);
  // At most four of a session and 20 of its account at once, and each place is free again when its reader has left.
  const abort = new AbortController();
  const hold = (headers: Record<string, string>): Promise<Response> =>
    fetch(`${stack.url}/console/api/lb/${idOf('web')}`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ method: 'GET', path: '/forever', headers: [] }),
      signal: abort.signal,
    });
  const rest = (mine: Record<string, string>) => Promise.all(Array.from({ length: 4 }, () => hold(mine)));
  await rest(own);
  const refused = await send(own, request);
  t.is(refused.status, 429);
  t.true((await refused.text()).includes('a session may have at most 4'));
  for (let n = 0; n < 4; n++) await rest(await session(stack.apiKey));
  const sixth = await session(stack.apiKey);
  t.true((await (await send(sixth, request)).text()).includes('an account may have at most 20'));
  abort.abort();
  let status = 429;
  while (status === 429) ({ status } = await send(own, request));
  t.is(status, 200);
  const page = await openPage(t, browser, stack.url);
  await open(page, reader);
  await becomes(t, () => page.getByRole('button', { name: 'Send' }).getAttribute('aria-disabled'), 'true');
  await page.getByRole('heading', { name: 'curl' }).waitFor();
});

serial(`the page of the API sends each request as it shows it${SKIPPED}`, async (t) => {
  t.timeout(300_000, 'some thirty requests in a browser');
  const viewport = { width: 1440, height: 900 };
  await stack.run(idOf('words'), { text: 'one' });
  const page = await openPage(t, browser, stack.url, { viewport });
  await page.goto(`${stack.url}/docs/?endpoint=${idOf('words')}`);
  await page.locator('#key').fill('cap_wrong');
  await page.keyboard.press('Enter');
  await page.locator('#said').getByText(/key/).waitFor();
  await page.locator('#key').fill(stack.apiKey);
  await page.keyboard.press('Enter');
  await page.locator('#ask').waitFor({ state: 'detached' });
  // What cannot be at first: a completed job is not retried, no endpoint here serves the OpenAI API, a build is a file of megabytes.
  const sent = await sendAll(page, (operation) => !/retry|openai|^p(ut|atch) \/builds/.test(operation));
  t.deepEqual(
    sent.filter(({ status }) => status !== 200),
    [],
  );
  t.true(sent.length >= 15, sent.map(({ operation }) => operation).join(', '));
  t.is(sent.filter(({ operation }) => operation.includes('/status/')).length, 1, 'an operation has one entry');
  t.regex(sent.find(({ operation }) => operation.endsWith('/runsync'))?.response ?? '', /COMPLETED/);
});
