/** Requests that no worker will serve are refused at once with the reason, and remain demand, so that recovery is noticed. */
import test from 'ava';

import { UnservableEndpoints } from '../../gateway/invoke/unservable.ts';
import { Pools } from '../../gateway/lb/pools.ts';
import type { CapstanError } from '../../lib/errors.ts';

const broken = { endpointId: 'web', reason: 'its workers do not start', detail: 'no module named x', retryAfterMs: 8_000 };

test('requests that wait and later ones are refused, and count as one that waits until their callers would be back', (t) => {
  let now = 0;
  const reported: string[] = [];
  const unservable = new UnservableEndpoints(() => pools.recheck());
  const pools: Pools<{ readonly node: string }> = new Pools({
    maxHeld: 10,
    holdMs: 120_000,
    releaseOf: () => 'r1',
    now: () => now,
    onChange: (id) => reported.push(`${id} ${pools.demand(id).held}`),
    refusalOf: (id, hasKey) => unservable.refusal(id, hasKey),
  });
  const refused: CapstanError[] = [];
  const placed: string[] = [];
  const requestWorker = (): (() => void) =>
    pools.requestWorker('web', {
      functionName: '',
      waitingSince: undefined,
      alone: false,
      hasKey: true,
      aloneSince: undefined,
      placed: (worker) => placed.push(worker.id),
      refused: (error) => refused.push(error),
    });
  requestWorker();
  unservable.set('default', [broken]);
  t.is(refused[0]?.message, 'no worker serves the endpoint: its workers do not start: no module named x');
  t.is(refused[0]?.retryAfterMs, 8_000);
  requestWorker();
  t.is(refused.length, 2);
  t.is(reported.at(-1), 'web 1');
  t.is(pools.level('web').held, 0, 'nobody waits');
  now = 60_000;
  t.is(pools.demand('web').held, 1);
  now = 70_000;
  t.is(pools.demand('web').held, 0);
  // Another cell's list does not replace this one's.
  unservable.set('second', []);
  requestWorker();
  t.is(refused.length, 3);
  // A worker that started serves, whatever the scheduler last said.
  pools.setServing({ node: 'one' }, [{ workerId: 'w', endpointId: 'web', releaseId: 'r1', slots: 1, functions: [] }]);
  requestWorker();
  t.deepEqual(placed, ['w']);
  t.is(pools.demand('web').held, 0);
  pools.close(refused[0] as CapstanError);
});

test('callers without a key get no error of the code and no name of a node', (t) => {
  const unservable = new UnservableEndpoints(() => undefined);
  unservable.set('default', [broken]);
  t.is(unservable.refusal('web', false)?.message, 'no worker serves the endpoint: its workers do not start');
  t.is(unservable.refusal('other', false), undefined);
});
