/**
 * A bad night, as the operator of three hosts sees it: each event shows in the console as one incident, the right subject first, and what
 * the console offers to do about it works. How long each takes to show is printed, not asserted: the machine may be busy.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import type { Browser, Locator, Page } from 'playwright-core';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { Fleet } from '../support/fleet.ts';
import { freePort } from '../support/free-port.ts';
import { Receiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import {
  becomes,
  browserPath,
  buildConsole,
  checkAccessibility,
  closeBrowser,
  openBrowser,
  openPage,
  signIn,
  SKIPPED,
} from '../console/browser.ts';

const serial = browserPath === undefined ? test.serial.skip : test.serial;

/** Far beyond what an event may take on a busy machine, ms. */
const LIMIT_MS = 60_000;
const MISMATCH = 'Failed to initialize NVML: Driver/library version mismatch';
const A100 = { uuid: 'GPU-c-0', name: 'NVIDIA A100-SXM4-80GB', memoryMiB: 81_920 };

let fleet: Fleet;
let browser: Browser;
let ids: ReadonlyMap<string, string>;

const idOf = (name: string): string => ids.get(name) ?? '';
const smiOf = (node: string): string => join(fleet.stack.scratch, `node-${node}`, 'smi');

if (browserPath !== undefined) {
  test.before(async (t) => {
    t.timeout(180_000);
    await buildConsole();
    [fleet, browser] = await Promise.all([
      Fleet.start(1, {
        CAPSTAN_NODE_GRACE_MS: '2000',
        CAPSTAN_WEBHOOK_ALLOW: '127.0.0.0/8',
        // A gateway that is started again has the address that the page knows.
        CAPSTAN_HTTP_PORT: String(await freePort()),
      }),
      openBrowser(),
    ]);
    await fleet.connected('a');
    await Promise.all([fleet.join('b'), fleet.join('c')]);
    // Only the third host has the card that `pinned` wants.
    await writeFakeSmi(smiOf('c'), { gpus: [A100] });
    ids = await fleet.stack.deploy(join(import.meta.dirname, 'app'));
  });
  test.after.always(async () => {
    await closeBrowser(browser);
    await fleet?.close();
  });
}

/** The overview, which stays open over a test. */
class Watch {
  readonly #t: ExecutionContext;
  readonly page: Page;

  private constructor(t: ExecutionContext, page: Page) {
    this.#t = t;
    this.page = page;
  }

  static async open(t: ExecutionContext): Promise<Watch> {
    t.timeout(280_000);
    const page = await openPage(t, browser, fleet.stack.url);
    page.setDefaultTimeout(LIMIT_MS);
    await signIn(page, fleet.stack.url, fleet.stack.apiKey);
    await page.getByRole('region', { name: 'Needs attention' }).waitFor();
    return new Watch(t, page);
  }

  /** Incidents that are not effects of others, in their order. */
  get incidents(): Locator {
    return this.page.locator('ul.incidents > li');
  }

  of(kind: string, subject: string): Locator {
    const named = this.page.locator('strong').getByText(subject, { exact: true });
    return this.incidents
      .filter({ has: this.page.locator(':scope > div > code', { hasText: new RegExp(`^${kind}$`) }) })
      .filter({ has: named });
  }

  /** Waits until an event shows, as one incident whose message begins with its subject; prints how long it took. */
  async shows(kind: string, subject: string, since: number): Promise<Locator> {
    const incident = this.of(kind, subject);
    await incident.waitFor();
    this.#t.log(`${kind} of ${subject}: shown after ${((performance.now() - since) / 1_000).toFixed(1)} s`);
    this.#t.is(await incident.count(), 1, `${kind} of ${subject} is one incident`);
    this.#t.is(await incident.locator('strong').first().innerText(), subject);
    return incident;
  }

  async ends(kind: string, subject: string): Promise<void> {
    await this.of(kind, subject).waitFor({ state: 'detached' });
  }

  /** The kind and subject of each, in order. */
  async order(): Promise<string[]> {
    const items = await this.incidents.all();
    return Promise.all(
      items.map(
        async (item) => `${await item.locator(':scope > div > code').innerText()} ${await item.locator('strong').first().innerText()}`,
      ),
    );
  }

  /** Runs the command of an action as it stands in the console. */
  async act(incident: Locator, label: string): Promise<string> {
    const actions = incident.locator('details', { has: this.page.locator('li.actions') });
    await actions.locator('summary').click();
    const action = actions.locator('li.actions').filter({ hasText: label });
    const [program, ...args] = (await action.locator('code').innerText()).split(' ');
    this.#t.is(program, 'capstan');
    const { code, stdout, stderr } = await fleet.tool(...args);
    this.#t.is(code, 0, `${label}: ${stderr}`);
    return `${stdout}${stderr}`;
  }
}

serial(`what fails by itself: each endpoint is one incident with an action that works, and the rest is not blamed${SKIPPED}`, async (t) => {
  const { stack } = fleet;
  const receiver = await Receiver.open(t, [500, 200]);
  const watch = await Watch.open(t);
  await watch.page.getByText('Nothing.').waitFor();
  for (const name of ['busy', 'portable']) await stack.ended(idOf(name), await stack.run(idOf(name), { n: 1 }));

  let at = performance.now();
  await stack.run(idOf('paused'), { n: 1 });
  const paused = await watch.shows('PAUSED', 'paused', at);
  await watch.act(paused, 'Resume');
  await watch.ends('PAUSED', 'paused');

  at = performance.now();
  await stack.run(idOf('crashing'), {});
  const crashing = await watch.shows('CRASH_LOOP', 'crashing', at);
  t.regex(await watch.act(crashing, 'Open logs'), /no module named torch/);

  at = performance.now();
  await stack.run(idOf('unplaced'), { n: 1 });
  const unplaced = await watch.shows('NO_CAPACITY', 'unplaced', at);
  t.regex(await watch.act(unplaced, 'Show why'), /HOPPER_141|H200/);

  at = performance.now();
  for (let n = 0; n < 5; n++) await stack.ended(idOf('failing'), await stack.run(idOf('failing'), {}));
  const failing = await watch.shows('FAILURE_RATE', 'failing', at);
  t.regex(await failing.innerText(), /5 of 5 jobs failed/);
  t.regex(await watch.act(failing, 'Retry all failed'), /Retrying 5 jobs/);

  at = performance.now();
  for (let n = 0; n < 10; n++) {
    t.is((await stack.call(`/lb/${idOf('web')}/broken`)).status, 500);
    t.is((await stack.call(`/lb/${idOf('web')}/page`)).status, 200);
  }
  const web = await watch.shows('FAILURE_RATE', 'web', at);
  t.regex(await web.innerText(), /10 of 10 requests of GET \/broken ended with a status from 500/);
  t.notRegex(await web.innerText(), /\/page/, 'the route that is well is not blamed');
  t.regex(await watch.act(web, 'Open logs'), /no such table/);

  at = performance.now();
  const hook = { input: { n: 1 }, webhook: receiver.url('/dead') };
  t.is((await stack.call(`/v2/${idOf('hooked')}/run`, { method: 'POST', body: JSON.stringify(hook) })).status, 200);
  const hooked = await watch.shows('WEBHOOKS_FAILING', 'hooked', at);
  await watch.act(hooked, 'Resend all failed');
  await watch.ends('WEBHOOKS_FAILING', 'hooked');

  at = performance.now();
  const gate = join(stack.scratch, 'gate');
  const waiting = await Promise.all([1, 2].map(() => stack.run(idOf('late'), { gate })));
  const late = await watch.shows('QUEUE_DELAY', 'late', at);
  await watch.act(late, 'Raise workersMax');
  await watch.ends('QUEUE_DELAY', 'late');
  await writeFile(gate, '');
  for (const job of waiting) t.is((await stack.ended(idOf('late'), job)).status, 'COMPLETED');

  const order = await watch.order();
  t.deepEqual(order, ['CRASH_LOOP crashing', 'NO_CAPACITY unplaced', 'FAILURE_RATE failing', 'FAILURE_RATE web']);
  await becomes(t, () => watch.page.title(), '(4) Overview – Capstan');
  await checkAccessibility(t, watch.page, 'a bad night');
});

serial(`a driver that breaks and a host that is killed come first, with what waits for them below${SKIPPED}`, async (t) => {
  const { stack } = fleet;
  const watch = await Watch.open(t);

  let at = performance.now();
  await writeFakeSmi(smiOf('b'), { fails: { code: 18, stdout: MISMATCH } });
  const driver = await watch.shows('DEVICE_UNHEALTHY', 'b', at);
  t.true((await driver.innerText()).includes(MISMATCH));
  await watch.act(driver, 'Drain');
  await until('the host is drained', async () => (await fleet.nodes()).find(({ name }) => name === 'b')?.draining);

  at = performance.now();
  await fleet.kill('c');
  const gone = await watch.shows('NODE_DISCONNECTED', 'c', at);
  await stack.run(idOf('pinned'), { n: 1 });
  await gone.getByText(/: 1 endpoint, 1 job waits/).waitFor();
  await gone.getByText('1 effect').click();
  await gone.getByRole('link', { name: 'pinned' }).waitFor();
  t.is(await watch.of('NO_CAPACITY', 'pinned').count(), 0, 'the effect is no incident of its own');
  t.deepEqual((await watch.order()).slice(0, 3), ['NODE_DISCONNECTED c', 'DEVICE_UNHEALTHY b', 'CRASH_LOOP crashing']);
  const gpu = watch.page.getByRole('region', { name: 'GPUs' }).getByRole('row', { name: /A100/ });
  await gpu.getByText(/^last seen \d+ s ago$/).waitFor();
  t.notRegex(await gpu.innerText(), /healthy|free/);

  await watch.act(gone, 'Remove');
  await watch.ends('NODE_DISCONNECTED', 'c');
  await watch.of('NO_CAPACITY', 'pinned').waitFor();
  await writeFakeSmi(smiOf('b'), { gpus: [{ ...A100, uuid: 'GPU-b-0' }] });
  await watch.ends('DEVICE_UNHEALTHY', 'b');
  t.is((await fleet.tool('node', 'resume', 'b')).code, 0);
  await watch.ends('NO_CAPACITY', 'pinned');
});

serial(`a quota that is filled is one incident, and the command in it raises it${SKIPPED}`, async (t) => {
  const watch = await Watch.open(t);
  const at = performance.now();
  t.is((await fleet.tool('account', 'set', 'default', '--workers', '12')).code, 0);
  const quota = await watch.shows('QUOTA_NEARLY_USED', 'account default', at);
  await watch.act(quota, 'Raise the quota of workers');
  await watch.ends('QUOTA_NEARLY_USED', 'account default');
});

serial(
  `a scheduler that stops and a gateway that is killed are said at once, and the page is live again after them${SKIPPED}`,
  async (t) => {
    const { stack } = fleet;
    const watch = await Watch.open(t);
    const { page } = watch;
    const says = async (reason: string, since: number): Promise<void> => {
      await page
        .getByRole('status')
        .filter({ hasText: `Not live: ${reason}` })
        .waitFor();
      t.log(`${reason}: shown after ${((performance.now() - since) / 1_000).toFixed(1)} s`);
      await becomes(t, async () => (await page.title()).startsWith('⚠ Not live – '), true);
    };
    const isLive = (): Promise<unknown> => until('the page is live', async () => !(await page.title()).includes('Not live'));

    let at = performance.now();
    stack.signal('scheduler', 'SIGSTOP');
    try {
      await says('The scheduler does not respond.', at);
      t.true((await watch.order()).length > 0, 'what was known stays');
    } finally {
      stack.signal('scheduler', 'SIGCONT');
    }
    await isLive();

    // The supervisor starts no other gateway before it was seen that this one is away.
    stack.signal('up', 'SIGSTOP');
    try {
      at = performance.now();
      stack.signal('gateway', 'SIGKILL');
      await says('The gateway cannot be reached.', at);
    } finally {
      stack.signal('up', 'SIGCONT');
    }
    await isLive();
    await watch.of('CRASH_LOOP', 'crashing').waitFor();
  },
);
