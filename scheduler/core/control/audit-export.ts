/** Up to where the audit log was exported: a setting of the cell, so that whoever owns it next goes on from there. */
import type { StepContext } from '../context.ts';
import type { AuditPosition } from '../ports/store.ts';
import { putRow } from '../rows.ts';

export const AUDIT_EXPORT_SETTING = 'audit-export';

export function noteAuditExport(ctx: StepContext, call: number, position: AuditPosition): void {
  ctx.state.auditExport = position;
  ctx.reply(call, { kind: 'done' }, putRow(ctx, 'setting', AUDIT_EXPORT_SETTING, position));
}
