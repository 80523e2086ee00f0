"""Programming languages: which grammar reads a media type, and what its nodes are called.

A grammar is a wheel of its own that carries compiled tables; nothing is downloaded, and none is loaded before it is used.
The names of nodes do not contradict each other, so that one set serves all languages.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping

from tree_sitter import Language, Node

from rag_assets.records import Document


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DEFINITIONS = _names(
    """
    function_definition class_definition
    function_declaration generator_function_declaration class_declaration abstract_class_declaration method_definition
    interface_declaration enum_declaration internal_module module type_alias_declaration
    method_declaration constructor_declaration compact_constructor_declaration record_declaration
    annotation_type_declaration type_declaration
    function_item impl_item mod_item trait_item struct_item enum_item union_item macro_definition
    namespace_definition class_specifier struct_specifier union_specifier enum_specifier type_definition
    class method singleton_method singleton_class
    """
)
"""What has a signature, which is a heading of what is in it."""

WRAPPERS = _names(
    """
    decorated_definition export_statement template_declaration expression_statement ambient_declaration
    declaration field_declaration lexical_declaration variable_declaration
    """
)
"""What may hold a definition, and adds decorators, keywords, a name or a semicolon to it."""

TRANSPARENT = _names(
    """
    preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list statement_list
    body_statement enum_body_declarations
    """
)
"""What is read as if its children stood in its place."""

BODIES = _names(
    """
    block statement_block compound_statement constructor_body do_block class_body field_declaration_list
    """
)
"""Blocks that begin with their first statement: no better place to cut than that."""

ATTACHED = _names(
    """
    comment line_comment block_comment attribute_item inner_attribute_item decorator marker_annotation annotation
    """
)
"""What goes with the definition below it."""

FUNCTION_VALUES = _names("arrow_function function_expression generator_function class")
"""What makes a definition of `const name = …` and `module.exports.name = …`."""

_MAX_WRAPPERS = 5

_GRAMMARS: Mapping[str, tuple[str, str]] = {
    "text/x-python": ("tree_sitter_python", "language"),
    "text/x-javascript": ("tree_sitter_javascript", "language"),
    "text/x-typescript": ("tree_sitter_typescript", "language_typescript"),
    "text/x-tsx": ("tree_sitter_typescript", "language_tsx"),
    "text/x-java": ("tree_sitter_java", "language"),
    "text/x-go": ("tree_sitter_go", "language"),
    "text/x-rust": ("tree_sitter_rust", "language"),
    "text/x-c": ("tree_sitter_c", "language"),
    "text/x-cpp": ("tree_sitter_cpp", "language"),
    "text/x-ruby": ("tree_sitter_ruby", "language"),
    "text/x-bash": ("tree_sitter_bash", "language"),
}


def language_of(document: Document) -> Language | None:
    """The grammar for a document, None for a language without one here."""
    return _load(*_GRAMMARS[document.mime]) if document.mime in _GRAMMARS else None


@functools.cache
def _load(module: str, function: str) -> Language:
    return Language(getattr(importlib.import_module(module), function)())


def members_of(node: Node) -> Iterator[Node]:
    """What stands in a block, in order."""
    todo = node.named_children[::-1]
    while todo:
        child = todo.pop()
        if child.type in TRANSPARENT:
            todo += child.named_children[::-1]
        else:
            yield child


def inside(definition: Node) -> Iterator[Node]:
    """What stands in the body of a definition. Ruby's grammar leaves comments at its beginning outside of it."""
    body = body_of(definition)
    if body is not None:
        yield from (
            child for child in definition.children if child.type in ATTACHED and child.end_byte <= body.start_byte
        )
        yield from members_of(body)


def definition_in(node: Node) -> Node | None:
    """The definition that `node` is, or holds with its decorators and keywords; None if it is another statement."""
    layer = [node]
    for _ in range(_MAX_WRAPPERS):
        found = next((candidate for candidate in layer if _defines(candidate)), None)
        if found is not None:
            return found
        layer = [child for candidate in layer if candidate.type in WRAPPERS for child in candidate.named_children]
    return None


def body_of(definition: Node) -> Node | None:
    """What stands between the braces of a definition, or is indented below it."""
    return (_value(definition) or definition).child_by_field_name("body")


def _defines(node: Node) -> bool:
    if node.type.endswith("_specifier"):  # in C, `struct S` alone only names what is defined elsewhere
        return node.type in DEFINITIONS and node.child_by_field_name("body") is not None
    return node.type in DEFINITIONS or (node.type in WRAPPERS and _value(node) is not None)


def _value(node: Node) -> Node | None:
    """The function that a JavaScript statement gives a name to."""
    inside: Node | None = node
    for _ in range(_MAX_WRAPPERS):
        if inside is None or inside.type in FUNCTION_VALUES:
            return inside
        fields = (inside.child_by_field_name(name) for name in ("declaration", "value", "right"))
        first = inside.named_children[0] if inside.type in WRAPPERS and inside.named_children else None
        inside = next((child for child in fields if child is not None), first)
    return None
