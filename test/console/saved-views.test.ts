/** Views of the console are what a browser stored, or whoever else writes there. */
import test from 'ava';

import { MAX_NAME, MAX_VIEWS, parseViews, withView } from '../../console/src/ui/saved-views.ts';

test('what is no view is left out', (t) => {
  const stored = [
    { name: 'failed', path: '/endpoints/a/jobs?status=FAILED' },
    { name: 'script', path: 'javascript:alert(1)' },
    { name: 'host', path: '//evil.example/' },
    { name: 'backslash', path: '/\\evil.example/' },
    { name: 'absolute', path: 'https://evil.example/' },
    { name: 'n'.repeat(MAX_NAME + 1), path: '/' },
    { name: 'long', path: `/${'p'.repeat(2_000)}` },
    { name: '', path: '/' },
    { name: 7, path: '/' },
    { path: '/' },
    'text',
    null,
    { name: 'failed', path: '/later' },
    { name: '__proto__', path: '/nodes' },
  ];
  t.deepEqual(parseViews(JSON.stringify(stored)), [
    { name: 'failed', path: '/later' },
    { name: '__proto__', path: '/nodes' },
  ]);
  for (const text of [null, '', '{', '{}', '7', '"x"', 'null']) t.deepEqual(parseViews(text), [], String(text));
  const many = Array.from({ length: 10 * MAX_VIEWS }, (_, n) => ({ name: String(n), path: '/' }));
  t.is(parseViews(JSON.stringify(many)).length, MAX_VIEWS);
});

test('a view takes the place of the one with its name, and there is a limit', (t) => {
  const one = withView([], { name: ' b ', path: '/1' });
  t.deepEqual(withView(one, { name: 'b', path: '/2' }), [{ name: 'b', path: '/2' }]);
  t.deepEqual(
    withView(one, { name: 'a', path: '/' }).map(({ name }) => name),
    ['a', 'b'],
  );
  const full = Array.from({ length: MAX_VIEWS }, (_, n) => ({ name: String(n), path: '/' }));
  t.throws(() => withView(full, { name: 'more', path: '/' }), { message: /^views: at most 50/ });
  t.is(withView(full, { name: '7', path: '/nodes' }).length, MAX_VIEWS);
  t.throws(() => withView([], { name: '  ', path: '/' }), { message: /^name: / });
  t.throws(() => withView([], { name: 'x', path: '//evil.example' }), { message: /^path: / });
});
