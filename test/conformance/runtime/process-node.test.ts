import { ProcessRuntime } from '../../../agent/runtimes/process/process-runtime.ts';
import { runtimeConformance } from './suite.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin' };

runtimeConformance('process/node', () => new ProcessRuntime({ baseEnv, spares: { node: 1, python: 0 }, python: 'python3' }));
