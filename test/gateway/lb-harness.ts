/** A gateway with one load-balanced endpoint, `web`, and calls to it by its host. */
import type { ExecutionContext } from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { RouteEntry } from '../../proto/gen/capstan/v1/control.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import { schedulers } from './fake-agent.ts';
import type { FakeScheduler } from './fake-scheduler.ts';
import { setup, type Setup } from './harness.ts';

export const HOST = 'web.lb.localhost';

export interface LbSetup extends Setup {
  /** Where agents reach the gateway. */
  readonly invokeAddress: string;
}

interface Route {
  readonly method: string;
  readonly path: string;
  /** Of its function. */
  readonly name: string;
}

function entryOf({ method, path, name }: Route): RouteEntry {
  return { method, path, function: { name, module: 'm.ts', parameters: [], callStyle: CallStyle.UNSPECIFIED } };
}

/** `GET /fn`, `POST /fn`, `PUT /other`, and more. */
export function addWeb(scheduler: FakeScheduler, ...more: readonly Route[]): void {
  const routes = [
    { method: 'GET', path: '/fn', name: 'fn' },
    { method: 'POST', path: '/fn', name: 'fn' },
    { method: 'PUT', path: '/other', name: 'other' },
    ...more,
  ];
  scheduler.addEndpoint('web', 'acc', EndpointKind.LOAD_BALANCED, { routes: routes.map(entryOf) });
}

export async function setupLb(t: ExecutionContext, overrides: Record<string, unknown> = {}, host = HOST): Promise<LbSetup> {
  const made = await setup(t, overrides);
  addWeb(made.scheduler);
  const { invokeAddress } = await made.scheduler.reports.next((report) => report.invokeAddress !== '');
  schedulers.set(invokeAddress, made.scheduler);
  const call: Setup['call'] = (method, path, options = {}) =>
    made.call(method, path, { ...options, headers: { host, ...options.headers } });
  // Known to the gateway once it is not 404.
  while ((await call('DELETE', '/fn')).status === 404);
  return { ...made, call, invokeAddress };
}
