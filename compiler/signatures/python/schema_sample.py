"""Makes a value that fits a JSON Schema, for examples of calls."""

FORMATS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "email": "name@example.com",
    "uri": "https://example.com/",
}


def sample_of(schema):
    """Returns a value that fits a schema."""
    return _sample(schema, schema.get("$defs", {}), 0)


def _sample(schema, definitions, depth):
    if "default" in schema:
        return schema["default"]
    if "$ref" in schema and depth < 10:
        return _sample(definitions.get(schema["$ref"][len("#/$defs/") :], {}), definitions, depth + 1)
    for key in ("enum", "anyOf"):
        if schema.get(key):
            return schema[key][0] if key == "enum" else _sample(schema[key][0], definitions, depth + 1)
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _sample(properties[name], definitions, depth + 1) for name in schema.get("required", []) if name in properties and depth < 10}
    if kind == "array":
        return [_sample(each, definitions, depth + 1) for each in schema.get("prefixItems", [])] if depth < 10 else []
    if kind in ("integer", "number"):
        return schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else 1)
    return {"boolean": True, "null": None}.get(kind, FORMATS.get(schema.get("format"), "text"))
