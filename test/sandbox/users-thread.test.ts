import { ThreadRuntime } from '../../agent/runtimes/thread/thread-runtime.ts';
import { bootstrap } from '../conformance/runtime/hosts.ts';

import { HOST_ENV } from './user-level.ts';
import { userConformance } from './users-conformance.ts';

await userConformance('thread', (launcher) => new ThreadRuntime({ launcher, bootstrap, baseEnv: HOST_ENV, spares: 1 }), undefined);
