import { ProcessRuntime } from '../../../agent/runtimes/process/process-runtime.ts';
import { python } from './languages.ts';
import { runtimeConformance } from './suite.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin' };

runtimeConformance('process/python', () => new ProcessRuntime({ baseEnv, spares: { node: 0, python: 1 }, python: 'python3' }), python);
