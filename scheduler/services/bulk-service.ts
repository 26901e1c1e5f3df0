/** Calls that change many jobs at once. */
import { endpointNotFound } from '../../lib/job-errors.ts';
import type { ControlServiceServer, JobFilter } from '../../proto/gen/capstan/v1/control.ts';
import { BulkOperations } from './bulk-operations.ts';
import { entryOf } from './audit.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import { checkedFilter } from './job-filter.ts';

type Handlers = Pick<ControlServiceServer, 'countJobs' | 'startBulkOperation' | 'listBulkOperations' | 'stopBulkOperation'>;

export function bulkHandlers({ engine, auth, log, clock }: ControlDeps): Handlers {
  const operations = new BulkOperations({ engine, log, wall: () => clock.now().wall });
  function check(account: string, endpointId: string): void {
    const config = engine.state.endpoints.get(endpointId)?.config;
    if (config === undefined || config.account !== account || config.removing !== undefined) throw endpointNotFound(endpointId);
  }
  return {
    countJobs: unary(log, 'CountJobs', async ({ endpointId, action, filter }, metadata) => {
      const account = auth.account(metadata);
      check(account, endpointId);
      const { count, incomplete } = await operations.count({ account, endpoint: endpointId, action, filter: filterOf(filter) });
      return { count: BigInt(count), incomplete };
    }),
    startBulkOperation: unary(log, 'StartBulkOperation', async ({ endpointId, action, filter }, metadata) => {
      const account = auth.account(metadata);
      check(account, endpointId);
      const changed = auth.auditor(log, metadata, 'StartBulkOperation');
      const object = engine.state.endpoints.get(endpointId)?.config;
      const audit = entryOf(auth, metadata, {
        ...{ action: 'startBulkOperation', object: `${object?.environment ?? ''}/${object?.name ?? endpointId}`, account },
        after: { action, ...filter },
      });
      const started = operations.start({ account, endpoint: endpointId, action, filter: filterOf(filter) });
      await engine.command({ kind: 'audit' }, { ...audit, after: { operation: started.id, ...audit.after } });
      changed({ account, endpoint: endpointId, operation: started.id, action });
      return started;
    }),
    listBulkOperations: unary(log, 'ListBulkOperations', ({ endpointId }, metadata) => ({
      operations: operations.list(auth.account(metadata), endpointId),
    })),
    stopBulkOperation: unary(log, 'StopBulkOperation', async ({ id }, metadata) => {
      const account = auth.account(metadata);
      const audit = entryOf(auth, metadata, { action: 'stopBulkOperation', object: id, account });
      const stopped = operations.stop(account, id);
      await engine.command({ kind: 'audit' }, audit);
      return stopped;
    }),
  };
}

function filterOf(filter: JobFilter | undefined) {
  return checkedFilter(filter ?? { states: [], sinceMs: 0n, untilMs: 0n, text: '' });
}
