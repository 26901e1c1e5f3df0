import test from 'ava';

import { bytesOf, sharesOf, stageOf, type HeapNode, type ProfileTree } from '../../bench/budget/stages.ts';

const frame = (functionName: string, url = '') => ({ functionName, url });
const GATEWAY = 'file:///repository/gateway';

test('a function belongs to the stage of its file, whoever calls it', (t) => {
  t.is(stageOf(frame('parseBody', `${GATEWAY}/json/body.ts`), 'route'), 'body scan');
  t.is(stageOf(frame('observe', 'file:///repository/node_modules/prom-client/lib/histogram.js'), 'answer'), 'metrics');
  t.is(stageOf(frame('endpointOf', `${GATEWAY}/lookup/lookup.ts`), 'route'), 'auth');
  t.is(stageOf(frame('step', 'file:///repository/scheduler/core/step/step.ts'), undefined), 'core');
  t.is(stageOf(frame('release', 'file:///repository/scheduler/core/state/rate-limits.ts'), 'core'), 'limits');
});

test('what a library of the runtime does counts for its caller, and without one for the socket', (t) => {
  t.is(stageOf(frame('writeGeneric', 'node:net'), 'channel'), 'channel');
  t.is(stageOf(frame('writeGeneric', 'node:net'), undefined), 'socket');
  t.is(stageOf(frame('emit', 'node:events'), 'metrics'), 'metrics');
  t.is(stageOf(frame('writeUtf8String'), 'answer'), 'answer');
});

test('the collector and native code have rows of their own; a function without a stage has none', (t) => {
  t.is(stageOf(frame('(garbage collector)'), 'route'), 'gc');
  t.is(stageOf(frame('(program)'), undefined), 'native');
  t.is(stageOf(frame('processTicksAndRejections', 'node:internal/process/task_queues'), undefined), undefined);
});

test('shares are of the time in which the thread worked: without idle time and the profiler itself', (t) => {
  const profile: ProfileTree = {
    nodes: [
      { id: 1, callFrame: frame('(root)'), children: [2, 3, 4, 6] },
      { id: 2, callFrame: frame('(idle)'), hitCount: 1000 },
      { id: 3, callFrame: frame('post', 'node:inspector'), hitCount: 500, children: [7] },
      { id: 4, callFrame: frame('parserOnIncoming', 'node:_http_server'), hitCount: 10, children: [5] },
      { id: 5, callFrame: frame('emit', 'node:events'), hitCount: 20 },
      { id: 6, callFrame: frame('runId', `${GATEWAY}/jobs/ids.ts`), hitCount: 10 },
      { id: 7, callFrame: frame('runId', `${GATEWAY}/jobs/ids.ts`), hitCount: 10 },
    ],
  };
  t.deepEqual(
    sharesOf(profile),
    new Map([
      ['id', 0.25],
      ['parse', 0.75],
    ] as const),
  );
  t.deepEqual(sharesOf({ nodes: [] }), new Map());
});

test('allocations are summed by stage', (t) => {
  const node = (functionName: string, url: string, selfSize: number, ...children: HeapNode[]): HeapNode => ({
    callFrame: frame(functionName, url),
    selfSize,
    children,
  });
  const head = node(
    '(root)',
    '',
    5,
    node('submit', `${GATEWAY}/http/routes/submit.ts`, 100, node('request', `${GATEWAY}/jobs/channel.ts`, 40, node('Map', '', 2))),
  );
  t.deepEqual(
    bytesOf(head),
    new Map([
      ['other', 5],
      ['route', 100],
      ['channel', 42],
    ] as const),
  );
});
