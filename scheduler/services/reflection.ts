/**
 * The reflection service's content: Capstan's messages and the health service's, so that `grpcurl` works without the
 * `.proto` files.
 *
 * The descriptors come from the library's loader, which names the entry type of a map field like the field (`Env`)
 * where the language guide requires `EnvEntry`; strict clients refuse the whole file for it. The names are corrected
 * here.
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, type DescriptorProto } from '@bufbuild/protobuf/wkt';
import { load, type AnyDefinition, type EnumTypeDefinition, type MessageTypeDefinition, type PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { protoPath as healthProto } from 'grpc-health-check';

import type { ServiceTaker } from './late-service.ts';

const protoFolder = join(dirname(fileURLToPath(import.meta.url)), '../../proto');
const protoFiles = ['cluster', 'control', 'jobs', 'nodes', 'blobs'].map((name) => `capstan/v1/${name}.proto`);

/** Adds the reflection service (v1 and v1alpha) to a server. */
export async function addReflection(server: ServiceTaker): Promise<void> {
  const descriptors = await load([...protoFiles, healthProto], { includeDirs: [protoFolder], keepCase: true });
  new ReflectionService(corrected(descriptors)).addToServer(server);
}

/** Returns the package with every file's descriptor corrected. A package contains a file once for each of its types. */
function corrected(descriptors: PackageDefinition): PackageDefinition {
  const files = new Map<string, Buffer>();
  const correct = (bytes: Buffer): Buffer => {
    const key = bytes.toString('latin1');
    let file = files.get(key);
    if (file === undefined) {
      file = Buffer.from(correctFile(bytes));
      files.set(key, file);
    }
    return file;
  };
  const result: PackageDefinition = {};
  for (const [name, definition] of Object.entries(descriptors)) {
    // Services are in a package without files; their messages bring the files.
    result[name] = isTypeDefinition(definition)
      ? { ...definition, fileDescriptorProtos: definition.fileDescriptorProtos.map(correct) }
      : definition;
  }
  return result;
}

function isTypeDefinition(definition: AnyDefinition): definition is MessageTypeDefinition<object, object> | EnumTypeDefinition {
  return Array.isArray((definition as Record<string, unknown>)['fileDescriptorProtos']);
}

function correctFile(bytes: Uint8Array): Uint8Array {
  const file = fromBinary(FileDescriptorProtoSchema, bytes);
  for (const message of file.messageType) nameMapEntries(message);
  return toBinary(FileDescriptorProtoSchema, file);
}

function nameMapEntries(message: DescriptorProto): void {
  for (const nested of message.nestedType) {
    nameMapEntries(nested);
    if (nested.options?.mapEntry !== true) continue;
    const field = message.field.find((candidate) => candidate.typeName === nested.name);
    if (field === undefined || nested.name.endsWith('Entry')) continue;
    nested.name = `${pascalCase(field.name)}Entry`;
    field.typeName = nested.name;
  }
}

function pascalCase(name: string): string {
  return name.replaceAll(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
