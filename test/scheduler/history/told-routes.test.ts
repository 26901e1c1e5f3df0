/** Routes that have series of their own are bounded for each account (scheduler/history/told-routes.ts). */
import test from 'ava';

import type { State } from '../../../scheduler/core/state.ts';
import { OTHER_ROUTES } from '../../../scheduler/history/routes.ts';
import { MAX_OF_AN_ACCOUNT, ToldRoutes } from '../../../scheduler/history/told-routes.ts';

/** As much of a state as is read: endpoints with their account and routes. */
function stateOf(endpoints: Readonly<Record<string, readonly [account: string, routes: readonly string[]]>>): State {
  const records = Object.entries(endpoints).map(
    ([id, [account, routes]]) => [id, { config: { id, account, routes: Object.fromEntries(routes.map((name) => [name, 'f'])) } }] as const,
  );
  return { endpoints: new Map(records) } as unknown as State;
}
const routes = (from: number, count: number): string[] => Array.from({ length: count }, (_, i) => `GET /${from + i}`);

test('an account has so many, another one its own', (t) => {
  const all = routes(0, MAX_OF_AN_ACCOUNT);
  const state = stateOf({ a: ['one', all], b: ['one', ['GET /b']], c: ['two', ['GET /c']] });
  const told = new ToldRoutes();
  for (const route of all) t.is(told.nameOf(state, 'a', route), route);
  t.is(told.nameOf(state, 'b', 'GET /b'), OTHER_ROUTES);
  t.is(told.nameOf(state, 'a', 'GET /0'), 'GET /0', 'what is told apart stays so');
  t.is(told.nameOf(state, 'c', 'GET /c'), 'GET /c');
  t.is(told.nameOf(state, 'a', 'GET /none'), '', 'not declared');
  t.is(told.nameOf(state, 'none', 'GET /0'), '');
});

test('what is no longer declared, or whose endpoint is gone, makes room', (t) => {
  const told = new ToldRoutes();
  const full = stateOf({ a: ['one', routes(0, MAX_OF_AN_ACCOUNT)], b: ['one', ['GET /b']] });
  for (const route of routes(0, MAX_OF_AN_ACCOUNT)) told.nameOf(full, 'a', route);
  t.is(told.nameOf(full, 'b', 'GET /b'), OTHER_ROUTES);
  const fewer = stateOf({ a: ['one', routes(1, MAX_OF_AN_ACCOUNT - 1)], b: ['one', ['GET /b', 'GET /c']] });
  t.is(told.nameOf(fewer, 'b', 'GET /b'), 'GET /b');
  t.is(told.nameOf(fewer, 'b', 'GET /c'), OTHER_ROUTES);
  const gone = stateOf({ b: ['one', ['GET /b', 'GET /c']] });
  told.keepOnly(gone);
  t.is(told.nameOf(gone, 'b', 'GET /c'), 'GET /c');
});
