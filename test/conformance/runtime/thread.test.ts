import { shared, threadRuntime } from './hosts.ts';
import { runtimeConformance } from './suite.ts';

runtimeConformance('thread', shared(threadRuntime(1)), undefined, { atOnce: 12 });
