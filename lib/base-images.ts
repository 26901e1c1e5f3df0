/**
 * The base images: built from `deploy/images/`, and used by endpoints without their own `imageName` on hosts whose
 * container engine has them. Without such an image, a node runs the endpoint with its own Python or Node, if that
 * provides what the image promises.
 */

export type Language = 'python' | 'node';

export interface BaseImage {
  /** Without a tag. */
  readonly name: string;
  readonly language: Language;
  /** Carries CUDA, for GPU endpoints. */
  readonly cuda: boolean;
  /** Its Python packages, which builds therefore omit. */
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

/** Returns the full reference of an image: with a tag, without the registry that engines omit. */
export function imageReference(image: string): string {
  const plain = image.replace(/^(docker\.io|localhost)\//, '');
  return /[:@][^/]*$/.test(plain) ? plain : `${plain}:latest`;
}

/** Returns the base image that a reference names, with any tag; null for other images. */
export function baseImageOf(image: string): BaseImage | null {
  const name = imageReference(image).replace(/[:@][^/]*$/, '');
  return baseImages.find((base) => base.name === name) ?? null;
}

/** The `imageName` of an endpoint that sets none. */
export function defaultBaseImage(language: Language, cuda: boolean): BaseImage {
  const found = baseImages.find((base) => base.language === language && base.cuda === cuda);
  if (found === undefined) throw new Error(`no base image for ${language}`);
  return found;
}
