import type { Json } from "../openapi/tidy.js";

/** A property of an object schema of the OpenAPI document. */
export interface Property {
  name: string;
  description: string;
  /** JSON type, without null. */
  type: string;
  format: string | undefined;
  isNullable: boolean;
  isEnumerated: boolean;
}

/** Returns the properties of a component of the document, in order. */
export function propertiesOf(document: Json, component: string): Property[] {
  const { schemas } = document.components as {
    schemas: Record<string, { properties: Record<string, Json> }>;
  };
  const schema = schemas[component];
  if (!schema) throw new Error(`the document has no schema ${component}`);
  return Object.entries(schema.properties).map(([name, property]) => {
    const { anyOf: [variant = property] = [] } = property as { anyOf?: Json[] };
    const types = [variant.type].flat() as string[];
    return {
      name,
      description: String(property.description),
      type: types.find((type) => type !== "null") ?? "",
      format: property.format as string | undefined,
      isNullable: types.includes("null"),
      isEnumerated: "enum" in variant,
    };
  });
}
