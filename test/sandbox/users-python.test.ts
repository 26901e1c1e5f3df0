import { ProcessRuntime } from '../../agent/runtimes/process/process-runtime.ts';
import { bootstrap } from '../conformance/runtime/hosts.ts';
import { python } from '../conformance/runtime/languages.ts';
import { HOST_ENV } from './user-level.ts';
import { userConformance } from './users-conformance.ts';

await userConformance(
  'process/python',
  (launcher) => new ProcessRuntime({ launcher, bootstrap, baseEnv: HOST_ENV, spares: { node: 0, python: 1 }, python: 'python3' }),
  python,
);
