/** Checks before an upload whether any host has the packages that a build left out because the base image has them. */
import { baseImageOf, preinstalledPackages } from '../../lib/base-images.ts';
import { NO_NODE } from '../../lib/job-errors.ts';
import type { MachineType } from '../api/nodes.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { Application } from '../../compiler/application/application.ts';

export type HostOffer = Pick<MachineType, 'packages' | 'images'>;

/** Returns one sentence for each endpoint that no host can serve at present. */
export function lackingPackages({ endpoints }: Pick<Application, 'endpoints'>, types: readonly HostOffer[]): string[] {
  return endpoints.flatMap(({ spec }) => {
    const wanted = preinstalledPackages.filter((name) => spec.packages.includes(name));
    const ownImage = spec.imageName !== '' && baseImageOf(spec.imageName) === null;
    if (wanted.length === 0 || ownImage) return [];
    const has = types.some(
      ({ packages, images }) =>
        wanted.every((name) => packages.includes(name)) || images.some((image) => (baseImageOf(image)?.packages.length ?? 0) > 0),
    );
    const where = types.length === 0 ? NO_NODE : `no connected node has ${wanted.length === 1 ? 'it' : 'them'}`;
    return has ? [] : [`endpoint ${spec.name} needs ${wanted.join(', ')}, and ${where}`];
  });
}

export interface FleetCheck<T> {
  /** The machine types of the service; requested only if an endpoint needs something of its hosts. */
  readonly types: () => Promise<readonly HostOffer[]>;
  /** `--allow-missing` */
  readonly allowMissing: boolean;
  /** Builds again, with the packages of the base image. */
  readonly bundled: () => Promise<T>;
  /** Reads a key of a person; null where there is none. */
  readonly pressed: (() => Promise<string | null>) | null;
  readonly terminal: Terminal;
}

/**
 * Returns the build to upload: the one it receives if the hosts can start it. Otherwise a person chooses; without a
 * person the packages are bundled, and where no node is connected it ends. @throws CapstanError CONFLICT before anything is uploaded.
 */
export async function fittingBuild<T extends { readonly application: Pick<Application, 'endpoints'> }>(
  built: T,
  check: FleetCheck<T>,
): Promise<T> {
  const { terminal } = check;
  if (!built.application.endpoints.some(({ spec }) => spec.packages.length > 0)) return built;
  const types = await check.types();
  const lacking = lackingPackages(built.application, types);
  if (lacking.length === 0) return built;
  if (check.allowMissing) {
    for (const text of lacking) terminal.warn(`${text}; its jobs stay queued until a node joins that has`);
    return built;
  }
  if (check.pressed !== null) {
    for (const text of lacking) terminal.warn(text);
    terminal.line('Press b to bundle the packages, d to deploy without them, any other key to stop.');
    const key = await check.pressed();
    if (key === 'b') return check.bundled();
    if (key === 'd') return built;
  } else if (types.length > 0) {
    for (const text of lacking) terminal.step(`${text}: building with the packages`);
    return check.bundled();
  }
  throw new ToolError(
    'CONFLICT',
    `nothing was uploaded: ${lacking.join('; ')}`,
    'Install the packages on a node, bundle them with --bundle-base-packages, or deploy for nodes that join later with --allow-missing.',
  );
}
