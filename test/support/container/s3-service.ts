/** The S3-compatible server of tests as the program of a container, with the variables that MinIO's image has. */
import { startS3 } from '../s3-server.ts';

const { BUCKET: bucket = 'capstan', MINIO_ROOT_USER: accessKeyId = '', MINIO_ROOT_PASSWORD: secretAccessKey = '' } = process.env;
const server = await startS3({ bucket, accessKeyId, secretAccessKey, region: 'us-east-1' }, { host: '0.0.0.0', port: 9000 });
// The first process of a container has no default action for signals.
process.once('SIGTERM', () => {
  server.close();
  process.exit();
});
