import { ThreadRuntime } from '../../../agent/runtimes/thread/thread-runtime.ts';
import { runtimeConformance } from './suite.ts';

runtimeConformance('thread', () => new ThreadRuntime({ baseEnv: { PATH: '/usr/local/bin:/usr/bin:/bin' }, spares: 1 }));
