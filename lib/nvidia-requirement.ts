/**
 * What an image requires of the driver: NVIDIA_REQUIRE_CUDA of its configuration, as NVIDIA's container toolkit reads it. Alternatives
 * are separated by spaces, the conditions of one by commas:
 *
 *   cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471
 *
 * Later alternatives name the drivers with which the compatibility libraries of the image work.
 */

/** Facts of a device; empty where its driver does not report them. */
export interface DriverFacts {
  /** The newest CUDA that the driver serves: `12.4`. */
  readonly cuda: string;
  /** `550.54.15` */
  readonly driver: string;
  /** Compute capability: `9.0`. */
  readonly capability: string;
  readonly model: string;
}

const CONDITION = /^([a-z]+)(>=|<=|!=|=|>|<)([0-9A-Za-z.]+)$/;

/** Returns the alternatives of the first expression that the device does not meet; null if it meets all. */
export function unmetRequirement(expressions: readonly string[], facts: DriverFacts): string | null {
  for (const expression of expressions) {
    const alternatives = expression.split(/\s+/).filter((text) => text !== '');
    if (alternatives.length > 0 && !alternatives.some((text) => text.split(',').every((condition) => holds(condition, facts)))) {
      // The first one is what the image is made for.
      return alternatives[0] ?? null;
    }
  }
  return null;
}

/** A condition that names something unknown holds: the toolkit of the host decides about it. */
function holds(condition: string, { cuda, driver, capability, model }: DriverFacts): boolean {
  const [, name, operator = '', wanted = ''] = CONDITION.exec(condition) ?? [];
  switch (name) {
    case 'cuda':
      return compares(cuda, operator, wanted);
    case 'driver':
      return compares(driver, operator, wanted);
    case 'arch':
      return compares(capability, operator, wanted);
    case 'brand':
      return brandsOf(model).has(wanted) === (operator === '=');
    default:
      return true;
  }
}

function compares(own: string, operator: string, wanted: string): boolean {
  if (!/^\d/.test(own)) return false;
  const order = compareVersions(own, wanted);
  switch (operator) {
    case '>=':
      return order >= 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '<':
      return order < 0;
    case '!=':
      return order !== 0;
    default:
      return order === 0;
  }
}

/** Compares versions number by number; one that is absent counts as 0. */
export function compareVersions(a: string, b: string): number {
  const [own, other] = [a.split('.').map(Number), b.split('.').map(Number)];
  for (let i = 0; i < Math.max(own.length, other.length); i += 1) {
    const difference = (own[i] ?? 0) - (other[i] ?? 0);
    if (difference !== 0 && !Number.isNaN(difference)) return Math.sign(difference);
  }
  return 0;
}

/** Names of a brand by product name: nvidia-smi does not say which of them the driver reports. */
const BRANDS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/GeForce RTX/i, ['geforce', 'geforcertx']],
  [/GeForce/i, ['geforce']],
  [/Quadro RTX/i, ['quadro', 'quadrortx']],
  [/Quadro/i, ['quadro']],
  [/TITAN RTX/i, ['titan', 'titanrtx']],
  [/TITAN/i, ['titan']],
  [/\bRTX\b/i, ['nvidiartx', 'quadrortx', 'nvidia']],
];

/** A card of a data centre is `tesla` for older drivers, `nvidia` for newer ones. */
function brandsOf(model: string): ReadonlySet<string> {
  const [, names] = BRANDS.find(([pattern]) => pattern.test(model)) ?? [];
  return new Set(names ?? ['tesla', 'nvidia', 'unknown']);
}

/** Expressions of an image's environment (`NAME=value`); none if it switches its requirements off. */
export function requirementsOf(environment: readonly string[]): string[] {
  const values = environment.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)] as const);
  const isOff = values.some(([name, value]) => name === 'NVIDIA_DISABLE_REQUIRE' && /^(?:1|t|true|yes)$/i.test(value.trim()));
  if (isOff) return [];
  return values.filter(([name, value]) => name.startsWith('NVIDIA_REQUIRE_') && value.trim() !== '').map(([, value]) => value.trim());
}
