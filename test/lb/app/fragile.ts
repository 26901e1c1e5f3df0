export function crash(): never {
  process.exit(3);
}

export function works(): boolean {
  return true;
}
