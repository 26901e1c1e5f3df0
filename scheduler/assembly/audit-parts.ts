/** The export of the audit log, where a receiver is configured. */
import { hostname } from 'node:os';

import { resourceAttributes } from '../../lib/telemetry/resource.ts';
import { telemetryEnvironment } from '../../lib/telemetry/settings.ts';
import { auditTarget, type SchedulerConfig } from '../config.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { AuditExport, AuditExportOptions } from '../telemetry/audit-export.ts';

export interface AuditExportDeps {
  readonly config: SchedulerConfig;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: AuditExportOptions['log'];
  /** What tells this scheduler from others. */
  readonly instanceId: string;
  readonly version: string;
}

/**
 * Null where the audit log is not exported; then nothing of OpenTelemetry is loaded.
 * @throws CapstanError CONFIG, which names the variable.
 */
export async function openAuditExport(deps: AuditExportDeps): Promise<AuditExport | null> {
  const { config, engine, clock, log, instanceId, version } = deps;
  const target = auditTarget(config);
  if (target === null) return null;
  const { protocol, receiver, url } = target;
  const resource = {
    ...resourceAttributes({ part: 'scheduler', version, instanceId, hostName: hostname() }, telemetryEnvironment(config)),
    'capstan.cell': config.cell,
  };
  const { OtlpSender } = await import('../telemetry/audit-sender.ts');
  const { AuditExport: Export } = await import('../telemetry/audit-export.ts');
  log.info({ receiver, protocol }, 'the audit log is exported');
  return new Export({
    state: () => (engine.up ? engine.image : null),
    command: (command) => engine.command(command),
    // Apart from what programs wait for.
    entries: (after, until, limit) => engine.search('auditAfter', after, until, limit),
    now: () => clock.now(),
    sender: new OtlpSender({ protocol, url, resource, version, timeoutMs: config.auditExportTimeoutMs }),
    receiver,
    log,
  });
}
