/** The kinds of projects of examples/field, with the real packages, in a browser and in both forms of the address. */
import test from 'ava';
import type { Browser } from 'playwright-core';

import { deployed, formsOf, used, worked, type Field } from '../../examples/field/field.ts';
import { webKinds, workerKinds } from '../../examples/field/kinds.ts';
import { browserPath, closeBrowser, openBrowser } from '../console/browser.ts';
import { missingRegistry } from '../support/registries.ts';
import { Stack } from '../support/stack.ts';

let stack: Stack;
let browser: Browser | undefined;
test.before(async () => {
  stack = await Stack.start({ CAPSTAN_LB_HOLD_MS: '60000' });
  if (browserPath !== undefined) browser = await openBrowser();
});
test.after.always(async () => {
  await closeBrowser(browser);
  await stack.close();
});

function field(): Field {
  const { CAPSTAN_HTTP_PORT: _http, CAPSTAN_GRPC_PORT: _grpc, ...variables } = stack.variables;
  return { url: stack.url, apiKey: stack.apiKey, work: stack.scratch, variables };
}

for (const each of webKinds) {
  const { kind, registry, lines, use } = each;
  const missing = missingRegistry[registry] ?? (browserPath === undefined ? 'there is no /usr/bin/chromium' : null);
  if (missing !== null) test.skip(`${kind} (${missing})`, (t) => t.pass());
  else
    test.serial(`${kind}: ${lines.length} lines, and its page works in both forms`, async (t) => {
      t.timeout(280_000);
      t.true(lines.length <= 3);
      const id = await deployed(field(), each);
      for (const [form, address] of Object.entries(formsOf(stack.url, id)))
        await t.notThrowsAsync(used(browser as Browser, address, use), form);
    });
}

for (const each of workerKinds) {
  const { kind, registry, lines, jobs } = each;
  const missing = missingRegistry[registry];
  if (missing !== null) test.skip(`${kind} (${missing})`, (t) => t.pass());
  else
    test.serial(`${kind}: ${lines.length} lines, and its jobs end`, async (t) => {
      t.timeout(200_000);
      await t.notThrowsAsync(worked(field(), await deployed(field(), each), jobs));
    });
}
