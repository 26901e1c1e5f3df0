/** Tests run as they are: Node strips the types. Each file is its own process, so that what it starts ends with it. */
export default {
  files: ['test/**/*.test.ts'],
  extensions: ['ts'],
  timeout: '2m',
};
