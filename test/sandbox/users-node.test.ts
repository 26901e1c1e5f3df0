import { ProcessRuntime } from '../../agent/runtimes/process/process-runtime.ts';
import { bootstrap } from '../conformance/runtime/hosts.ts';

import { HOST_ENV } from './user-level.ts';
import { userConformance } from './users-conformance.ts';

await userConformance(
  'process/node',
  (launcher) => new ProcessRuntime({ launcher, bootstrap, baseEnv: HOST_ENV, spares: { node: 1, python: 0 }, python: 'python3' }),
  undefined,
);
