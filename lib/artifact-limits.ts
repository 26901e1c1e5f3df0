/** What an artifact may be: the tool refuses more before it packs, services before they store, agents before they unpack. */
export const ARTIFACT_LIMITS = {
  /** Of the archive. */
  bytes: 500_000_000,
  /** Sum of the sizes of its files. */
  unpackedBytes: 4_000_000_000,
  /** Files, links and folders. */
  entries: 200_000,
  /** Of a path in it: Linux allows 4,096, with the folder of the host. */
  pathBytes: 2_048,
} as const;
