"""Functions, classes and methods of source code."""

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.chunking.parsing import MAX_BYTES
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document


def cut(text, language, *, max_tokens=40):
    chunking = ChunkingSettings(strategy="code_function", max_tokens=max_tokens)
    return chunk_document(Document("a", "a", f"text/x-{language}", text), chunking)


def paths(text, language, **limits):
    return [chunk.heading_path for chunk in cut(text, language, **limits)]


PYTHON = '''\
"""Doc."""

import os


# About f.
@cache
def f(x: int) -> int:
    """Return more."""
    return x + 1 if x > 0 else x - 1


class Foo(Base):
    """A class with a long description, so that it has to be opened up."""

    size = 1

    @property
    def bar(self) -> int:
        # The size.
        return self.size + self.size * 2

    async def baz(self, *, first: str, second: str) -> None:
        await self.send(first, second, self.size)
'''


def test_blank_lines_at_the_end_of_a_language_without_a_grammar_take_linear_time():
    """They were tried from each of them to the end: hours, which the time-out of the suite ends."""
    (chunk,) = cut("key = value\n" + "\n" * 200_000, "settings")
    assert chunk.text == "key = value"


def test_functions_and_methods_are_whole_with_their_signatures_above():
    chunks = cut(PYTHON, "python")
    assert [chunk.heading_path for chunk in chunks] == [
        (),
        ("def f(x: int) -> int",),
        ("class Foo(Base)",),
        ("class Foo(Base)", "def bar(self) -> int"),
        ("class Foo(Base)", "async def baz(self, *, first: str, second: str) -> None"),
    ]
    assert chunks[1].text.startswith("# About f.\n@cache\ndef f(x: int) -> int:\n")
    assert chunks[2].text.endswith("size = 1")
    assert chunks[3].text.startswith("@property\n    def bar(self) -> int:\n        # The size.\n")


def test_a_class_that_fits_is_one_chunk():
    assert paths(PYTHON, "python", max_tokens=120)[-1] == ("class Foo(Base)",)


def test_small_neighbours_share_a_chunk_and_the_path_they_have_in_common():
    head = f'class A:\n    """{"long " * 20}"""\n\n'
    text = head + "\n".join(f"    def f{n}(self):\n        pass\n" for n in range(12))
    chunks = cut(text, "python")
    assert len(chunks) <= 5
    assert {chunk.heading_path for chunk in chunks} == {("class A",)}


def test_small_statements_go_with_the_definition_below_them():
    (first, *_) = cut(PYTHON, "python", max_tokens=60)
    assert first.heading_path == ("def f(x: int) -> int",)
    assert first.text.startswith('"""Doc."""\n\nimport os\n\n\n# About f.\n')


def test_a_function_over_the_limit_is_cut_between_its_statements():
    body = "".join(f"    if check({n}):\n        act({n})\n    done({n})\n" for n in range(30))
    chunks = cut(f"def long(a):\n{body}", "python")
    assert len(chunks) > 5
    assert {chunk.heading_path for chunk in chunks} == {("def long(a)",)}
    assert all(chunk.text.startswith(("def long", "if check", "done(")) for chunk in chunks)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "typescript",
            "/** Doc. */\nexport class Foo<T> extends Bar {\n  @Input()\n  name = 'long enough to be opened';\n\n"
            "  greet(who: string): string {\n    return `hello ${who} and all the others`;\n  }\n}\n\n"
            "export const run = async (a: number) => {\n  await wait(a);\n  return a * 2 + 1;\n};\n",
            [
                ("class Foo<T> extends Bar",),
                ("class Foo<T> extends Bar", "greet(who: string): string"),
                ("export const run = async (a: number)",),
            ],
        ),
        (
            "javascript",
            "function* count(to) {\n  for (let i = 0; i < to; i++) yield i;\n}\n\n"
            "module.exports.go = function (a, b) {\n  return a.filter(Boolean).concat(b);\n};\n",
            [("function* count(to)",), ("module.exports.go = function (a, b)",)],
        ),
        (
            "java",
            "package a;\n\n/** Doc of the class, which is long. */\npublic class Foo {\n  private int count = 0;\n\n"
            "  /** Doc. */\n  @Override\n  public void bar(int a) {\n    count = count + a * 2;\n  }\n}\n",
            [("public class Foo",), ("public class Foo", "public void bar(int a)")],
        ),
        (
            "go",
            "package a\n\n// F adds.\nfunc F(a int) (int, error) {\n\treturn a + 1, nil\n}\n\n"
            "func (s *Server) Stop(now bool) error {\n\treturn s.close(now)\n}\n",
            [("func F(a int) (int, error)",), ("func (s *Server) Stop(now bool) error",)],
        ),
        (
            "rust",
            "/// Doc.\n#[derive(Debug)]\npub struct Size { width: u32, height: u32 }\n\nimpl Shape for Size {\n"
            "    /// The area.\n    #[inline]\n    fn area(&self) -> u32 {\n        self.width * self.height\n    }\n}\n",
            [("pub struct Size",), ("impl Shape for Size",)],
        ),
        (
            "cpp",
            "#include <a>\nnamespace n {\n/** Doc. */\ntemplate <class T>\nclass C : public B {\n public:\n"
            "  void f(int a) const { g(a + 1); }\n};\n\nvoid C::h(int a) const {\n  call(a, a + 1, a + 2);\n}\n}\n",
            [(), ("namespace n", "class C : public B"), ("namespace n", "void C::h(int a) const")],
        ),
        (
            "c",
            "/* Adds. */\nstatic int add(int a, int b)\n{\n  return a + b;\n}\n\n"
            "struct point {\n  int x;\n  int y;\n  int z;\n};\n",
            [("static int add(int a, int b)",), ("struct point",)],
        ),
        (
            "ruby",
            "module M\n  # Doc of the class.\n  class A < B\n    attr_reader :first, :second, :third\n\n"
            "    # Adds.\n    def add(a, b)\n      a + b + first + second + third\n    end\n  end\nend\n",
            [("module M", "class A < B"), ("module M", "class A < B", "def add(a, b)")],
        ),
        (
            "bash",
            "#!/bin/sh\n# Says hello.\nhello() {\n  echo hello $1 and $2\n}\n\n"
            "function bye {\n  echo good bye $1 and $2\n}\n",
            [("hello()",), ("function bye",)],
        ),
        (
            "sql",
            "-- People.\nCREATE TABLE person (\n  id int, name text DEFAULT 'a;b', born date\n);\n\n"
            "CREATE FUNCTION f() RETURNS int AS $$\nBEGIN\n  RETURN 1;\nEND;\n$$ LANGUAGE plpgsql;\n",
            [("CREATE TABLE person",), ("CREATE FUNCTION f",)],
        ),
    ],
)
def test_definitions_of_many_languages_are_found(language, text, expected):
    assert paths(text, language, max_tokens=36) == expected


def test_a_procedure_is_one_statement():
    text = "CREATE PROCEDURE p(a int)\nBEGIN\n  IF a > 0 THEN\n    SELECT 1;\n  END IF;\n  SELECT 2;\nEND;\nSELECT 3;\n"
    assert [chunk.text.splitlines()[-1] for chunk in cut(text, "sql", max_tokens=45)] == ["END;", "SELECT 3;"]


def test_another_language_is_cut_at_its_lines():
    text = "\n".join(f"fun f{n}(a: Int): Int {{\n    val b = a\n\n    return b\n}}\n" for n in range(20))
    chunks = cut(text, "kotlin")
    assert all(chunk.text.startswith("fun f") and chunk.text.endswith("}") for chunk in chunks)
    assert {chunk.heading_path for chunk in chunks} == {()}


def test_code_with_a_syntax_error_still_has_functions():
    broken = "def f(:\n    return (\n\n" + PYTHON
    assert ("class Foo(Base)", "def bar(self) -> int") in paths(broken, "python")


def test_text_that_is_not_of_its_language_is_cut_at_its_lines():
    """Read as shell, 280 kB of Python took minutes: after an error the parser takes quadratic time."""
    assert set(paths("def f(): pass\n" * 20_000, "bash")) == {()}


def test_a_file_that_no_person_wrote_is_cut_at_its_lines():
    lines = "x = call(1, 2, 3)\n" * (MAX_BYTES // 18 + 1)
    chunks = cut(f"{lines}\n{PYTHON}", "python", max_tokens=180)
    assert {chunk.heading_path for chunk in chunks} == {()}


def test_offsets_count_characters_and_not_bytes():
    text = 'def f():\n    return "漢字 🇩🇪 é"\n\n\ndef g():\n    """Zürich."""\n    return 1\n'
    assert [chunk.text.split("(")[0] for chunk in cut(text, "python", max_tokens=20)] == ["def f", "def g"]
