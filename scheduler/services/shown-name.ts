/** The rule for names that people choose and pages, terminals and logs show: API keys and join tokens. */
import { CapstanError } from '../../lib/errors.ts';
import { ruleViolation } from '../../lib/setting-rules.ts';

const MAX_LENGTH = 128;

/**
 * Names with line breaks, control characters or bidirectional controls could forge what is shown beside them. Only a new
 * name is checked: rows of earlier versions keep theirs.
 * @throws CapstanError INVALID_ARGUMENT
 */
export function checkShownName(name: string, { mayBeEmpty = false } = {}): void {
  const rule = { type: 'text', maxLength: MAX_LENGTH, printable: true } as const;
  const violation = ruleViolation(mayBeEmpty ? { ...rule, mayBeEmpty } : rule, name);
  if (violation !== null) throw new CapstanError('INVALID_ARGUMENT', `name: ${violation.rule}`, { field: 'name' });
}
