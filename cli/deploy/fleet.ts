/** Whether any host has what the endpoints' builds left out because the base image has it. */
import { baseImageOf, baseImages, preinstalledPackages } from '../../lib/base-images.ts';
import type { GatewayClient } from '../api/gateway-client.ts';
import type { Application } from './application.ts';

export interface FleetNode {
  readonly connected: boolean;
  /** Names of the packages that its Python has, of those of the base image. */
  readonly packages: readonly string[];
  /** Base images that its container engine has. */
  readonly images: readonly string[];
}

export async function readFleet(client: GatewayClient): Promise<readonly FleetNode[]> {
  const { nodes } = await client.query<{ nodes: readonly FleetNode[] }>('{ nodes { connected packages images } }');
  return nodes;
}

/** One sentence for each endpoint that no host can serve as it is. */
export function lackingPackages({ endpoints }: Application, nodes: readonly FleetNode[]): string[] {
  const withPackages = baseImages.filter(({ packages }) => packages.length > 0).map(({ name }) => name);
  return endpoints.flatMap(({ spec }) => {
    const wanted = preinstalledPackages.filter((name) => spec.packages.includes(name));
    const ownImage = spec.imageName !== '' && baseImageOf(spec.imageName) === null;
    if (wanted.length === 0 || ownImage) return [];
    const has = nodes.some(
      ({ connected, packages, images }) =>
        connected &&
        (wanted.every((name) => packages.includes(name)) || images.some((image) => withPackages.some((base) => image.startsWith(base)))),
    );
    return has
      ? []
      : [
          `${spec.name} requires ${wanted.join(', ')}, and no host has ${wanted.length === 1 ? 'it' : 'them'}: install on a host, or build with --bundle-base-packages`,
        ];
  });
}
