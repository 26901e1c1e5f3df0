import test from 'ava';

import { noEngine, startEngine, type PrivateEngine } from '../../support/container/private-engine.ts';
import { containerRuntime } from './container-under-test.ts';
import { javascriptHttp } from './functions-http.ts';
import { httpConformance } from './http-suite.ts';
import { typescript } from './languages.ts';
import { runtimeConformance } from './suite.ts';

let engine: PrivateEngine;
// The container is the same as with Python, the host the same as in a process: a minute that only a whole run spends.
const whole = process.env['CAPSTAN_TEST_WHOLE'] === '1';

if (noEngine === undefined && whole) {
  test.before(async () => {
    engine = await startEngine(['capstan/base-node', 'capstan/base-node-cuda']);
  });
  test.after.always(() => engine.stop());
  httpConformance('container/node', (t) => containerRuntime(t, engine.socket), javascriptHttp);
  runtimeConformance('container/node', (t) => containerRuntime(t, engine.socket), typescript, { atOnce: 3 });
} else {
  const reason = noEngine === undefined ? 'CAPSTAN_TEST_WHOLE=1 runs it' : `a container engine of its own ${noEngine}`;
  test.skip(`container/node: skipped, ${reason}`, (t) => t.pass());
}
