/** What `capstan version --check` advises. */
import test from 'ava';

import { compareVersions, newestVersion, upgradeSteps, type PartKind, type PartVersion } from '../../client/versions.ts';

const part = (kind: PartKind, name: string, version: string | null, state = ''): PartVersion => ({ part: kind, name, version, state });

const orderOf = (parts: readonly PartVersion[]): string[] => upgradeSteps(parts).map((step) => `${step.part} ${step.name}`.trim());

test('parts of one version need no upgrade', (t) => {
  t.deepEqual(upgradeSteps([part('tool', '', '0.2.0'), part('gateway', 'g', '0.2.0'), part('scheduler', 's', '0.2.0', 'owner')]), []);
});

test('schedulers come first, standbys before owners, then gateways, agents and the tool', (t) => {
  const parts = [
    part('tool', '', '0.1.0'),
    part('agent', 'gpu-1', '0.1.0', 'connected'),
    part('gateway', 'g', '0.1.0'),
    part('scheduler', 'one', '0.1.0', 'owner'),
    part('scheduler', 'two', '0.1.0', 'standby'),
    part('agent', 'gpu-2', '0.2.0', 'connected'),
  ];
  t.is(newestVersion(parts), '0.2.0');
  t.deepEqual(orderOf(parts), ['scheduler two', 'scheduler one', 'gateway g', 'agent gpu-1', 'tool']);
  t.true(upgradeSteps(parts).every(({ from, to }) => from === '0.1.0' && to === '0.2.0'));
  t.regex(upgradeSteps(parts)[1]?.how ?? '', /hands the queue over/);
  t.regex(upgradeSteps(parts)[3]?.how ?? '', /node drain/);
});

test('a part too old to tell its version is upgraded; one that is not connected waits until it tells', (t) => {
  const parts = [
    part('tool', '', '0.2.0'),
    part('scheduler', '', null),
    part('agent', 'old', null, 'connected'),
    part('agent', 'off', null, 'disconnected'),
  ];
  t.deepEqual(orderOf(parts), ['scheduler', 'agent old']);
});

test('a disconnected node of a known older version is named', (t) => {
  t.deepEqual(orderOf([part('tool', '', '0.2.0'), part('agent', 'off', '0.1.0', 'disconnected')]), ['agent off']);
});

test('versions compare as semantic versioning says', (t) => {
  const ordered = [
    '0.1.0',
    '0.2.0-alpha',
    '0.2.0-alpha.1',
    '0.2.0-alpha.beta',
    '0.2.0-rc.2',
    '0.2.0-rc.10',
    '0.2.0',
    '0.2.1',
    '0.10.0',
    '1.0.0',
  ];
  for (const [i, left] of ordered.entries())
    for (const [j, right] of ordered.entries()) t.is(Math.sign(compareVersions(left, right)), Math.sign(i - j), `${left} ${right}`);
  t.is(compareVersions('0.2.0+a', '0.2.0+b'), 0);
});
