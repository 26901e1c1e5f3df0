/** Requests whose workers are all on nodes that do not reach the gateway are refused at once, and no others. */
import test from 'ava';

import { UnreachedNodes } from '../../gateway/invoke/unreached.ts';
import { Pools } from '../../gateway/lb/pools.ts';
import type { CapstanError } from '../../lib/errors.ts';

const lost = (nodeId: string) => ({ nodeId, nodeName: `${nodeId}-name`, dialed: '10.0.0.1:1', reason: 'refused' });

test('a request waits while one node may serve it, and is refused once none may, those that wait included', (t) => {
  const placed = new Map([['web', new Set(['one', 'two'])]]);
  const nodes = new UnreachedNodes({ nodesOf: (id) => placed.get(id) ?? new Set(), onChange: () => pools.recheck() });
  const pools: Pools<{ readonly node: string }> = new Pools({
    maxHeld: 10,
    holdMs: 60_000,
    releaseOf: () => 'r1',
    now: () => 0,
    onChange: () => undefined,
    refusalOf: (id, hasKey) => nodes.refusal(id, hasKey),
  });
  const refused: CapstanError[] = [];
  const requestWorker = (): (() => void) =>
    pools.requestWorker('web', {
      functionName: '',
      waitingSince: undefined,
      alone: false,
      hasKey: true,
      aloneSince: undefined,
      placed: () => t.fail(),
      refused: (error) => refused.push(error),
    });
  requestWorker();
  nodes.set('default', [lost('one')]);
  t.is(refused.length, 0);
  // Another cell's list does not replace this one's.
  nodes.set('second', [lost('two')]);
  t.is(refused.length, 1);
  t.regex(refused[0]?.message ?? '', /run on one-name, two-name, whose agent does not reach this gateway/);
  requestWorker();
  t.deepEqual([refused.length, refused[1]?.retryAfterMs], [2, 10_000]);
  nodes.set('default', []);
  const stop = requestWorker();
  t.is(refused.length, 2);
  stop();
  // A worker of another release may serve, whatever the scheduler placed.
  nodes.set('default', [lost('one')]);
  pools.setServing({ node: 'three' }, [{ workerId: 'w', endpointId: 'web', releaseId: 'r0', slots: 0, functions: ['fn'] }]);
  const last = pools.requestWorker('web', {
    functionName: 'other',
    waitingSince: undefined,
    alone: false,
    hasKey: true,
    aloneSince: undefined,
    placed: () => t.fail(),
    refused: (error) => refused.push(error),
  });
  t.is(refused.length, 2);
  last();
});

test('a caller without a key learns no name of a node', (t) => {
  const nodes = new UnreachedNodes({ nodesOf: () => new Set(['one']), onChange: () => undefined });
  nodes.set('default', [lost('one')]);
  t.regex(nodes.refusal('web', true)?.message ?? '', /one/);
  t.is(nodes.refusal('web', false)?.message, 'no worker of the endpoint is reachable');
});
