"""What the operator configures, compared with what a class says of it."""

from __future__ import annotations

import json
from typing import Any

from . import Problems

_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null"}


def read(cls: Any, text: str) -> dict[str, Any]:
    """The configuration, compared with `fields` of the class: a type per key, or a list of the type and the default.

    A list without a default is None where the key is absent. As for JSON Schema, 1.0 is an integer.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problems(("", f"this is no JSON: {error}")) from None
    if not isinstance(config, dict):
        raise Problems(("", f"expected object, got {_KINDS[type(config)]}"))
    fields = getattr(cls, "fields", None)
    if fields is None:
        return config
    problems = [(key, f"is not known; known are {', '.join(fields)}") for key in config if key not in fields]
    for key, field in fields.items():
        kind, *default = field if isinstance(field, list) else [field]
        value = config.get(key)
        if key not in config and isinstance(field, list):
            config[key] = default[0] if default else None
        elif kind is int and isinstance(value, float) and value.is_integer():
            config[key] = int(value)
        elif type(value) not in ((int, float) if kind is float else (kind,)):
            problems.append((key, f"expected {_KINDS[kind]}, got {json.dumps(config[key]) if key in config else 'nothing'}"))
    if problems:
        raise Problems(*problems)
    return config


def schema(cls: Any) -> str:
    """The JSON Schema: `schema` of the class, or what its `fields` say."""
    fields = getattr(cls, "fields", None)
    if hasattr(cls, "schema") or fields is None:
        return json.dumps(getattr(cls, "schema", {"type": "object"}))
    kinds = {key: {"type": _KINDS[field[0] if isinstance(field, list) else field]} for key, field in fields.items()}
    needed = [key for key, field in fields.items() if not isinstance(field, list)]
    return json.dumps({"type": "object", "properties": kinds, "required": needed, "additionalProperties": False})
