import test from 'ava';

import { withLocationBelow } from '../../lib/redirects.ts';

/** The location as a browser receives it. */
function seen(location: string): string | undefined {
  return withLocationBelow(['Content-Type', 'text/plain', 'Location', location], '/lb/shop', 'api.test:8080')[3];
}

test('a redirect to a path of the application leads below the path of the endpoint', (t) => {
  t.is(seen('/login?next=/a#b'), '/lb/shop/login?next=/a#b');
  t.is(seen('/'), '/lb/shop/');
  t.is(seen('/v2/items'), '/lb/shop/v2/items');
  t.is(seen('http://api.test:8080/login'), 'http://api.test:8080/lb/shop/login');
  t.is(seen('HTTPS://API.test:8080/login'), 'HTTPS://API.test:8080/lb/shop/login');
});

test('what names the path of an endpoint, another host or no absolute path is not changed', (t) => {
  const kept = ['/lb/shop/login', '/lb/other/', 'login', '../login', '?page=2', '', 'https://example.com/login', 'mailto:a@b.c'];
  const hosts = [
    '//example.com/login',
    '/\\example.com',
    'http://api.test/login',
    'http://api.test:8080.example.com/',
    'http://api.test:8080',
  ];
  for (const location of [...kept, ...hosts]) t.is(seen(location), location);
});

test('other headers stay, and a redirect outside the path form does not change', (t) => {
  t.deepEqual(withLocationBelow(['Content-Location', '/a', 'x', '/b'], '/lb/shop', 'h'), ['Content-Location', '/a', 'x', '/b']);
  t.deepEqual(withLocationBelow(['Location', '/a'], '', 'h'), ['Location', '/a']);
});
