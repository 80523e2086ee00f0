"""Web pages keep their headings, lists, tables and code, and lose what is there for browsers."""

import pytest

from rag_assets.reading.documents import read_document

PAGE = """<!doctype html>
<html><head><title> The  Page | Site </title><style>p {}</style><script>var a = "<p>no</p>"</script></head>
<body>
<nav><a href="/">Home</a></nav>
<header><h1>The <em>Page</em><a class="headerlink" href="#x">¶</a></h1></header>
<p>Some <b>bold</b> and <a href="/x">linked</a> words,<br>and 1 &lt; 2 in <code>a &lt; b</code>.</p>
<h2>Lists</h2>
<ul><li>one<ol start="3"><li>three</li><li>four</li></ol></li><li><p>two</p><p>more</p></li></ul>
<dl><dt>term</dt><dd>what it is</dd></dl>
<pre><code class="language-py">if a:
    b()</code></pre>
<blockquote><p>Said<p>he</blockquote>
<table><caption>Sums</caption><tr><th>a<th>b|c</tr><tr><td rowspan=2>x<td>1</tr><tr><td>2</tr></table>
<div hidden>secret</div><div style="display:none">gone</div><button>Press</button>
<p># no heading</p>
</body></html>"""


def test_a_page_becomes_markdown():
    found = read_document("a.html", PAGE.encode())
    assert found.title == "The Page | Site"
    assert (
        found.text
        == """# The Page

Some bold and linked words,
and 1 < 2 in `a < b`.

## Lists

- one
  3. three
  4. four

- two

  more

- term: what it is

```py
if a:
    b()
```

> Said
>
> he

Sums

| a | b\\|c |
| --- | --- |
| x | 1 |
| x | 2 |

\\# no heading
"""
    )


def text_of(html: str) -> str:
    return read_document("a.html", html.encode()).text


def test_a_page_of_scripts_is_empty():
    assert text_of("<script>alert(1)</script><style>p {}</style><body><noscript>Turn it on</noscript>") == ""


def test_the_main_part_is_kept_with_the_heading_above_it():
    side = "<div>menu entry</div>" * 3
    assert text_of(f"<h1>Name</h1>{side}<main><p>{'What it says. ' * 5}</p></main>") == (
        f"# Name\n\n{('What it says. ' * 5).strip()}\n"
    )


def test_a_main_part_of_next_to_nothing_is_not_believed():
    assert text_of(f"<main></main><p>{'All of it. ' * 10}</p>").startswith("All of it.")


def test_tables_that_lay_out_a_page_are_read_through():
    assert text_of("<table><tr><td><h1>Title</h1><p>Text</p></td><td><pre>a\nb</pre></td></tr><tr><td>end</table>") == (
        "# Title\n\nText\n\n```\na\nb\n```\n\nend\n"
    )


def test_a_table_whose_headers_stand_at_the_side_has_none_at_the_top():
    assert text_of("<table><tr><th>Founded<td>1975<tr><th>Seat<td>Redmond</table>") == (
        "|  |  |\n| --- | --- |\n| Founded | 1975 |\n| Seat | Redmond |\n"
    )


def test_words_that_look_like_tags_stay_words():
    assert text_of("<p>The &lt;div&gt; element</p><ul><li>1. no list</ul>") == "The \\<div> element\n\n- 1\\. no list\n"


def test_code_keeps_its_lines_and_its_backticks():
    assert text_of("<pre>a<br>```<br>b</pre><p>a <code>`b`</code></p>") == "````\na\n```\nb\n````\n\na `` `b` ``\n"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="shift_jis">', "cp932"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">', "cp1252"),
        ("", "utf-8-sig"),
        ("<meta charset=latin-1>", "utf-8"),
        ("<meta charset=utf-8>", "utf-16"),
        ("<meta charset=nonsense>", "utf-8"),
    ],
)
def test_the_encoding_is_that_of_the_mark_or_the_meta_element(head, encoding):
    """UTF-8 that says it is latin-1 is UTF-8: nobody writes "Ã¼" twice."""
    word = "漢字とひらがな" if encoding == "cp932" else "Zürich"
    found = read_document("a.html", f"<html><head>{head}</head><body><p>{word}</p></body></html>".encode(encoding))
    assert (found.text, found.lossy) == (f"{word}\n", False)


def test_xhtml_elements_that_close_themselves_do_not_swallow_the_page():
    page = '<?xml version="1.0" encoding="iso-8859-1"?><html><head><title/><script src="x"/></head><body><p>Zürich<br/>b</p>'
    assert read_document("a.xhtml", page.encode("latin-1")).text == "Zürich\nb\n"
