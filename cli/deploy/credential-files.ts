/** Names by which files with private keys and credentials are known: they stay out of artifacts. */

/** Folders in which programs keep credentials. */
const FOLDERS = /^\.(aws|azure|docker|gcloud|gnupg|kube|ssh)$/;

const FILES: readonly RegExp[] = [
  /^\.envrc$/,
  // Private keys of OpenSSH; a name with an extension (id_map.json) is no key.
  /^id_[^.]+$/,
  /^(\.git-credentials|\.htpasswd|[._]netrc|\.pgpass|\.pypirc|\.vault-token)$/,
  /^credentials$/,
  /^(application_default_)?credentials[^/]*\.json$/,
  /^(client[-_]secret|service[-_]account)[^/]*\.json$/,
  /\.(jks|kdbx|key|keystore|p12|pem|pfx|ppk)$/,
];

/** Whether a file or folder of this name usually holds credentials. */
export function isCredentialName(name: string, isFolder: boolean): boolean {
  const lower = name.toLowerCase();
  return isFolder ? FOLDERS.test(lower) : FILES.some((pattern) => pattern.test(lower));
}
