/** Files by which private keys and credentials are known, by name or by content: they stay out of artifacts. */
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';

/** Folders in which programs keep credentials. */
const FOLDERS = /^\.(aws|azure|docker|gcloud|gnupg|huggingface|kube|oci|ssh)$/;

const FILES: readonly RegExp[] = [
  /^\.envrc$/,
  /\.env$/,
  // Private keys of OpenSSH; a name with an extension (id_map.json) is no key, but a copy of a key is (id_rsa.bak).
  /^id_[^.]+$/,
  /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?\.(?!pub$)/,
  /^(\.git-credentials|\.htpasswd|[._]netrc|\.pgpass|\.pypirc|\.npmrc|\.vault-token|\.boto|\.s3cfg|\.dockercfg|\.my\.cnf|\.mylogin\.cnf|\.modal\.toml)$/,
  /^credentials(\.(csv|ini|toml|txt|xml|ya?ml))?$/,
  /^(application_default_)?credentials[^/]*\.json$/,
  /^secrets?\.(env|ini|json|toml|ya?ml)$/,
  /^(client[-_]secret|service[-_]account)[^/]*\.json$/,
  /-firebase-adminsdk-[^/]*\.json$/,
  /^kubeconfig(\.[^/]*)?$/,
  /\.(jks|kdbx|key|keystore|kubeconfig|ovpn|p12|p8|pem|pfx|pk8|ppk|tfvars)$/,
  /\.tfstate(\.[^/]*)?$/,
];

/** A private key is shorter, also within a JSON document of a cloud. */
const LONGEST_KEY = 32 * 1024;
/** Sources contain the pattern when they work with keys; a key in them is the author's text. */
const SOURCES = /^\.([cm]?[jt]sx?|go|html?|java|md|py|rb|rs|rst|sh)$/;
const PRIVATE_KEY = /-----BEGIN ((RSA|DSA|EC|OPENSSH|ENCRYPTED|PGP) )?PRIVATE KEY( BLOCK)?-----/;

/** Whether a file or folder of this name usually holds credentials. */
export function isCredentialName(name: string, isFolder: boolean): boolean {
  const lower = name.toLowerCase();
  return isFolder ? FOLDERS.test(lower) : FILES.some((pattern) => pattern.test(lower));
}

/** Whether a file that is no source contains a private key. `size`: bytes. */
export async function hasPrivateKey(path: string, size: number): Promise<boolean> {
  if (size > LONGEST_KEY || SOURCES.test(extname(path).toLowerCase())) return false;
  try {
    return PRIVATE_KEY.test(await readFile(path, 'latin1'));
  } catch {
    return false; // not readable: packing reports it
  }
}
