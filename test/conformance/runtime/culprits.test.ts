/** Ends of workers on hosts without isolation. */
import { culpritConformance, ending } from './culprit-suite.ts';
import { processRuntime, shared, threadRuntime } from './hosts.ts';

culpritConformance('thread', shared(threadRuntime()), ending.javascript);
culpritConformance('process/node', shared(processRuntime()), ending.javascript);
culpritConformance('process/python, async', shared(processRuntime()), ending.coroutine);
culpritConformance('process/python, threads', shared(processRuntime()), ending.thread);
