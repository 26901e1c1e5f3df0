/** A gateway in this process, in front of a scheduler of a test. */
import type { ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import type { TestScheduler } from './scheduler-client.ts';

/** Starts it, waits until it serves, and returns its base URL. It closes with the test. */
export async function gatewayOf(t: ExecutionContext, scheduler: TestScheduler): Promise<string> {
  const { address } = scheduler.handle;
  const own = { port: 0, scheduler: address, token: scheduler.secret('gateway-token'), logLevel: 'silent', closeGraceMs: 0 };
  const gateway = await start(readConfig(own, {}));
  t.teardown(() => gateway.close());
  const headers = { authorization: scheduler.secret('api-key') };
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers })).status === 503);
  return gateway.url;
}
