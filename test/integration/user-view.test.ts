/** What jobs, metrics, secrets, environments of workers and numbers look like to users of a whole stack, which all cases share. */
import './exact-numbers.ts';
import './job-documents.ts';
import './metrics.ts';
import './secrets.ts';
import './worker-env.ts';
