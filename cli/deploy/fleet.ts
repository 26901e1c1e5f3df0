/** Checks whether any host has the packages that builds left out because the base image has them. */
import { baseImageOf, baseImages, preinstalledPackages } from '../../lib/base-images.ts';
import type { MachineType } from '../api/nodes.ts';
import type { Application } from './application.ts';

/** Returns one sentence for each endpoint that no host can serve at present. */
export function lackingPackages({ endpoints }: Application, types: readonly Pick<MachineType, 'packages' | 'images'>[]): string[] {
  const withPackages = baseImages.filter(({ packages }) => packages.length > 0).map(({ name }) => name);
  return endpoints.flatMap(({ spec }) => {
    const wanted = preinstalledPackages.filter((name) => spec.packages.includes(name));
    const ownImage = spec.imageName !== '' && baseImageOf(spec.imageName) === null;
    if (wanted.length === 0 || ownImage) return [];
    const has = types.some(
      ({ packages, images }) =>
        wanted.every((name) => packages.includes(name)) || images.some((image) => withPackages.some((base) => image.startsWith(base))),
    );
    return has
      ? []
      : [
          `${spec.name} requires ${wanted.join(', ')}, and no host has ${wanted.length === 1 ? 'it' : 'them'}: install on a host, or build with --bundle-base-packages`,
        ];
  });
}
