"""A source file becomes a `Document`: one module a format."""
