/** Ends with 0 where tests can start a PostgreSQL server, for `.ci/run`. */
import { postgresBinaries } from './postgres-binaries.ts';

process.exitCode = (await postgresBinaries()) === undefined ? 1 : 0;
