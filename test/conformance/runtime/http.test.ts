/** HTTP requests in the runtimes that run on the host itself; those in containers are beside their own suites. */
import { ProcessRuntime } from '../../../agent/runtimes/process/process-runtime.ts';
import { ThreadRuntime } from '../../../agent/runtimes/thread/thread-runtime.ts';
import { pythonHttp, typescriptHttp } from './functions-http.ts';
import { httpConformance, serverConformance } from './http-suite.ts';

const baseEnv = { PATH: '/usr/local/bin:/usr/bin:/bin' };
const processes = (): ProcessRuntime => new ProcessRuntime({ baseEnv, spares: { node: 0, python: 0 }, python: 'python3' });

httpConformance('thread', () => new ThreadRuntime({ baseEnv, spares: 0 }), typescriptHttp);
httpConformance('process/node', processes, typescriptHttp);
httpConformance('process/python', processes, pythonHttp);
serverConformance('process', processes, { command: ['python3', 'server.py'] });
