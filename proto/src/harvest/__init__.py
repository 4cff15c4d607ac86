"""Generated code of the wire contract; see proto/generate.sh."""
