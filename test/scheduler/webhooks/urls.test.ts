/** What of a webhook's URL is shown, and how the rest is kept. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { redactUrl, shownUrl } from '../../../scheduler/core/webhooks/webhook-url.ts';
import { AddressGuard, parseAllowList } from '../../../scheduler/webhooks/guard.ts';
import { WebhookUrls } from '../../../scheduler/webhooks/urls.ts';

const cases: readonly (readonly [url: string, shown: string])[] = [
  ['https://example.com', 'https://example.com'],
  ['https://example.com/hooks/42?user=ada&page=2', 'https://example.com/hooks/42?user=ada&page=2'],
  ['https://example.com:8443/a%20b/?', 'https://example.com:8443/a%20b/?'],
  ['https://user:pw@example.com/x', 'https://user:***@example.com/x'],
  ['https://s3cret@example.com/', 'https://***@example.com/'],
  ['https://:pw@example.com/', 'https://:***@example.com/'],
  ['https://example.com/?token=abc&n=1', 'https://example.com/?token=***&n=1'],
  ['https://example.com/?API_Key=abc', 'https://example.com/?API_Key=***'],
  ['https://example.com/?to%6ben=abc', 'https://example.com/?to%6ben=***'],
  ['https://example.com/?token=a=b', 'https://example.com/?token=***'],
  [
    'https://example.com/?X-Amz-Signature=ab&sig=cd&code=ef&password=',
    'https://example.com/?X-Amz-Signature=***&sig=***&code=***&password=',
  ],
  ['https://example.com/?x=0123456789abcdef0123', 'https://example.com/?x=***'],
  ['https://example.com/?0123456789abcdef0123', 'https://example.com/?***'],
  ['https://example.com/?%zz=1&token=%zz', 'https://example.com/?%zz=1&token=***'],
  ['https://hooks.example.com/services/T01/B02/aB3dE5fG7hI9jK1l', 'https://hooks.example.com/services/T01/B02/***'],
  ['https://example.com/#frag', 'https://example.com/#***'],
  ['no url at all', '***'],
];

for (const [url, shown] of cases) {
  test(`${url} is shown as ${shown}`, (t) => {
    t.is(redactUrl(url), shown);
    t.is(redactUrl(shown), shown, 'and stays so');
  });
}

test('a URL without secrets is kept as it came; one with secrets is opened for its own job alone', (t) => {
  const urls = new WebhookUrls(Buffer.alloc(32, 1), [], () => new AddressGuard(parseAllowList('')));
  t.is(urls.kept('https://example.com/hook', 'job'), 'https://example.com/hook');
  const url = 'https://user:pass-word@example.com/hook';
  const kept = urls.kept(url, 'job_1');
  t.false(kept.includes('pass-word'));
  t.is(shownUrl(kept), 'https://user:***@example.com/hook');
  t.is(urls.open(kept, 'job_1_7'), url);
  t.throws(() => urls.open(kept, 'job_2_7'), { instanceOf: CapstanError, message: /changed or moved/ });
  t.is(urls.open('https://user:pass-word@example.com/of-before', 'job_2_7'), 'https://user:pass-word@example.com/of-before');
  t.is(shownUrl('https://user:pass-word@example.com/of-before'), 'https://user:***@example.com/of-before');
  urls.use(Buffer.alloc(32, 2));
  t.is(urls.open(kept, 'job_1_7'), url);
  t.is(urls.open(urls.kept(url, 'job_1'), 'job_1_7'), url);
});
