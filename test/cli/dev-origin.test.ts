/** Which requests reach the development server, and which place an error message names. */
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { excerptOf, placeOf } from '../../devserver/excerpt.ts';
import { originRefusal } from '../../devserver/origin.ts';
import { pageOf } from '../../devserver/refusal.ts';
import { folderOf } from '../support/folder.ts';

const own = { isPublic: false, host: 'localhost' };

test('only names of this host are served', (t) => {
  for (const host of ['localhost:8888', '127.0.0.1:8888', '[::1]:8888', 'api.localhost', 'localhost.:1', 'LOCALHOST:1', '127.1:80'])
    t.is(originRefusal({ host }, own), null, host);
  for (const host of [
    'evil.example',
    'localhost.evil.example:8888',
    '192.168.1.5:8888',
    '0.0.0.0',
    'evil@localhost',
    'localhost/',
    '',
    'a b',
  ])
    t.regex(originRefusal({ host }, own) ?? '', /^Host: must be localhost/, host);
  t.regex(originRefusal({}, own) ?? '', /^Host: /);
  const open = { isPublic: true, host: '0.0.0.0' };
  t.is(originRefusal({ host: '192.168.1.5:8888' }, open), null, 'no DNS name becomes an address');
  t.regex(originRefusal({ host: 'evil.example' }, open) ?? '', /^Host: /);
  t.is(originRefusal({ host: 'box.lan:1' }, { isPublic: true, host: 'box.lan' }), null);
});

test('only pages of this host may call, whatever they send', (t) => {
  const host = 'localhost:8888';
  for (const origin of ['http://localhost:8888', 'http://localhost:3000', 'http://127.0.0.1:5173', 'http://[::1]:1'])
    t.is(originRefusal({ host, origin }, own), null, origin);
  for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example', 'file://', 'x'])
    t.regex(originRefusal({ host, origin }, own) ?? '', /^Origin: /, origin);
  t.regex(originRefusal({ host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, own) ?? '', /^Sec-Fetch-Site: /);
  t.is(originRefusal({ host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, own), null, 'a link that was followed');
  t.is(originRefusal({ host, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }, own), null);
});

test('the innermost place of the project is found, in messages and stacks of both languages', async (t) => {
  const folder = await realpath(await folderOf(t));
  await mkdir(join(folder, 'lib'));
  await writeFile(join(folder, 'lib/a.py'), 'one\ntwo\nthree\nfour\nfive\n');
  const python = `Traceback (most recent call last):
  File "${folder}/api.py", line 3, in f
    g()
  File "${folder}/lib/a.py", line 2, in g
    h()
  File "/usr/lib/python3/json/decoder.py", line 337, in decode
ValueError: x`;
  const node = `Error: no more
    at parse (node:internal/x:1:2)
    at next (/other/place/x.js:1:1)
    at dep (file://${folder}/node_modules/d/index.js:9:9)
    at inner (file://${folder}/lib/b.ts:7:9)
    at outer (file://${folder}/web.ts:2:3)`;
  t.deepEqual(placeOf(folder, python), { file: 'lib/a.py', line: 2 });
  t.deepEqual(placeOf(folder, node), { file: 'lib/b.ts', line: 7 });
  t.deepEqual(placeOf(folder, 'bad.py:2:12: invalid syntax'), { file: 'bad.py', line: 2 });
  t.is(placeOf(folder, 'File "/etc/passwd", line 1'), null);
  t.is(placeOf(folder, `File "${folder}/../x.py", line 1`), null);
  t.deepEqual((await excerptOf(folder, python))?.lines, ['  1 | one', '> 2 | two', '  3 | three']);
  t.is(await excerptOf(folder, node), null, 'no such file');
});

test('hostile text is escaped on pages', (t) => {
  const hostile = '<script>alert("1")</script>\'&';
  const page = pageOf({ status: 500, error: hostile, detail: hostile, excerpt: [hostile], log: [hostile] });
  t.false(page.includes('<script'));
  t.is(page.split('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;').length, 6);
});
