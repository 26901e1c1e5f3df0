/** HTTP requests in the runtimes that run on the host itself; those in containers are beside their own suites. */
import { pythonHttp, javascriptHttp } from './functions-http.ts';
import { processRuntime, shared, threadRuntime } from './hosts.ts';
import { httpConformance, serverConformance } from './http-suite.ts';
import { webSocketConformance } from './websocket-suite.ts';

const processes = shared(processRuntime());

httpConformance('thread', shared(threadRuntime()), javascriptHttp);
httpConformance('process/node', processes, javascriptHttp);
httpConformance('process/python', processes, pythonHttp);
webSocketConformance('thread', shared(threadRuntime()), javascriptHttp);
webSocketConformance('process/node', processes, javascriptHttp);
webSocketConformance('process/python', processes, pythonHttp);
serverConformance('process', processes, { command: ['python3', 'server.py'] });
