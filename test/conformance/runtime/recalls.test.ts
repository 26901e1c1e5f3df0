/** Tasks behind handlers that block, on hosts without isolation. */
import { processRuntime, shared, threadRuntime } from './hosts.ts';
import { blocking, recallConformance } from './recall-suite.ts';

recallConformance('thread', shared(threadRuntime()), blocking.javascript);
recallConformance('process/node', shared(processRuntime()), blocking.javascript);
recallConformance('process/python', shared(processRuntime()), blocking.python);
