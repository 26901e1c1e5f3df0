/** What errors of the file system mean, by their code. */
export const SYSTEM_ERRORS = {
  EACCES: 'permission denied',
  EPERM: 'operation not permitted',
  ENOTDIR: 'it, or a folder above it, is a file',
  EEXIST: 'it is not a folder',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
} as const satisfies Readonly<Record<string, string>>;
