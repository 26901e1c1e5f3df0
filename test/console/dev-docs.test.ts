/** The documentation page of `capstan run`: the first request of every operation works as it is shown. */
import { join } from 'node:path';

import test from 'ava';

import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import { browserPath, closeBrowser, openBrowser, openPage, SKIPPED } from './browser.ts';
import { sendAll } from './send-all.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

const PYTHON = `from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Literal, Optional
from capstan import Endpoint

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

@dataclass
class Item:
    name: str
    colour: Colour
    tags: list[str]
    size: Literal["S", "M"] = "M"

@Endpoint(name="orders", workers=(0, 1))
def order(item: Item, on: date, count: int = 3, note: Optional[str] = None):
    """Orders an item.

    It is sent on that day.
    """
    return [item.name, item.colour.value, on.isoformat(), count, note]

web = Endpoint(name="web", workers=(0, 1))

@web.get("/days/{day}")
def day(day: date, limit: int = 10, colour: Colour = Colour.BLUE):
    return [day.isoformat(), limit, colour.value]

@web.post("/items/{n}")
def put(n: int, item: Item):
    return n
`;

const NODE = `import { endpoint } from '@capstan/sdk';

interface Box { w: number; unit: 'cm' | 'mm'; when: Date; inner: { labels: [string, number] } }
/** Packs a box. */
export const pack = endpoint({ name: 'pack', workers: [0, 1] }, ({ w, unit, when, inner }: Box) => [w, unit, when.getTime() > 0, inner.labels.length]);
/** Greets. */
export const greet = endpoint({ name: 'greet', workers: [0, 1] }, (name: string, greeting = 'Hello', times: 1 | 2 | 3 = 2) => [greeting, name, times]);
`;

(browserPath === undefined ? test.skip : test)(`every operation is sent as it is shown, and responds with 200${SKIPPED}`, async (t) => {
  const folder = await folderOf(t, { 'shop.py': PYTHON, 'plain.ts': NODE });
  const server = run([bin, 'run', folder, '--port', '0'], { cwd: folder });
  t.teardown(async () => {
    server.child.kill('SIGINT');
    await server.ended;
  });
  const [, url = ''] = await server.hear(/development server: (http:\S+)/);
  const browser = await openBrowser();
  t.teardown(() => closeBrowser(browser));
  const page = await openPage(t, browser, url, { viewport: { width: 1440, height: 900 } });
  await page.goto(`${url}/docs`);
  const sent = await sendAll(page);
  t.deepEqual(
    sent.map(({ operation, status }) => `${operation} ${status}`).toSorted(),
    [
      'get /shop/days/{day} 200',
      'post /plain/greet/runsync 200',
      'post /plain/pack/runsync 200',
      'post /shop/items/{n} 200',
      'post /shop/runsync 200',
    ],
    JSON.stringify(sent, null, 2),
  );
  const responseOf = (operation: string): string => sent.find((each) => each.operation === operation)?.response ?? '';
  // The functions' own defaults, also where the page could send the first of several values.
  t.like(JSON.parse(responseOf('post /shop/runsync')), { status: 'COMPLETED', output: ['text', 'red', '2026-01-31', 3, null] });
  t.deepEqual(JSON.parse(responseOf('get /shop/days/{day}')), ['2026-01-31', 10, 'blue']);
  t.like(JSON.parse(responseOf('post /plain/greet/runsync')), { status: 'COMPLETED', output: ['Hello', 'text', 2] });
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { description?: string }>>;
  };
  t.is(document.paths['/shop/runsync']?.['post']?.description, 'Orders an item.\n\nIt is sent on that day.');
  t.is(document.paths['/plain/pack/runsync']?.['post']?.description, 'Packs a box.');
  const script = await fetch(`${url}/docs/js/scalar.js`, { headers: { 'accept-encoding': 'br' } });
  t.is(script.headers.get('content-encoding'), 'br');
});
