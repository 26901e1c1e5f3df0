/**
 * The base images: what `deploy/images/` builds, and what an endpoint without an `imageName` of its
 * own runs in where a container engine has them. A node without serves the same endpoint from its own
 * Python or Node, where that has what the image promises.
 */

export type Language = 'python' | 'node';

export interface BaseImage {
  /** Without a tag. */
  readonly name: string;
  readonly language: Language;
  /** Carries CUDA, for GPU endpoints. */
  readonly cuda: boolean;
  /** Python packages that it has, and that builds therefore leave out. */
  readonly packages: readonly string[];
}

/** Packages pre-installed in the base image. */
export const preinstalledPackages = ['torch', 'torchvision', 'torchaudio', 'numpy', 'triton'] as const;

export const baseImages: readonly BaseImage[] = [
  { name: 'capstan/base-python', language: 'python', cuda: false, packages: preinstalledPackages },
  { name: 'capstan/base-python-cuda', language: 'python', cuda: true, packages: preinstalledPackages },
  { name: 'capstan/base-node', language: 'node', cuda: false, packages: [] },
  { name: 'capstan/base-node-cuda', language: 'node', cuda: true, packages: [] },
];

/** An image's full reference: with a tag, without the registry that engines leave out. */
export function imageReference(image: string): string {
  const plain = image.replace(/^(docker\.io|localhost)\//, '');
  return /[:@][^/]*$/.test(plain) ? plain : `${plain}:latest`;
}

/** The base image that a reference names, whatever its tag; null for an image of someone else's. */
export function baseImageOf(image: string): BaseImage | null {
  const name = imageReference(image).replace(/[:@][^/]*$/, '');
  return baseImages.find((base) => base.name === name) ?? null;
}

/** The `imageName` of an endpoint that gives none. */
export function defaultBaseImage(language: Language, cuda: boolean): BaseImage {
  const found = baseImages.find((base) => base.language === language && base.cuda === cuda);
  if (found === undefined) throw new Error(`no base image for ${language}`);
  return found;
}
