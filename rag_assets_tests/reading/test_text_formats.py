"""Formats that are text and have structure: tables, books, notebooks, e-mails, reStructuredText."""

import json
from email.message import EmailMessage

import pytest

from rag_assets.errors import DocumentError
from rag_assets.reading.documents import read_document
from rag_assets_tests.reading.making import epub


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b'name,note\nAnn,"a, b\nand | c"\nBo,\n'),
        ("a.csv", b"name;note\r\nAnn;a, b and | c\r\nBo;\r\n"),
        ("a.csv", '\ufeffname,note\nAnn,"a, b and | c"\n\n\nBo,\n'.encode("utf-16")),
        ("a.tsv", b"name\tnote\nAnn\ta, b and | c\nBo\t\n"),
    ],
)
def test_rows_become_a_table_whatever_the_delimiter(name, data):
    assert read_document(name, data).text == "| name | note |\n| --- | --- |\n| Ann | a, b and \\| c |\n| Bo |  |\n"


def test_a_table_in_a_japanese_encoding_is_read():
    found = read_document("a.csv", "名前,年齢,住所\n佐藤太郎,30,東京\n三木英子,25,大阪\n".encode("cp932"))
    assert (
        found.text
        == "| 名前 | 年齢 | 住所 |\n| --- | --- | --- |\n| 佐藤太郎 | 30 | 東京 |\n| 三木英子 | 25 | 大阪 |\n"
    )
    assert found.lossy


def test_a_book_is_its_chapters_in_order():
    found = read_document(
        "a.epub", epub(["<h1>One</h1><p>a<br/>b</p>", '<h1>Two</h1><a id="x"/><p>c</p>'], title="Tales")
    )
    assert found.text == "# One\n\na\nb\n\n# Two\n\nc\n"
    assert (found.title, found.metadata) == ("Tales", {"author": "Ann Author"})


def test_a_notebook_is_markdown_and_code_and_short_outputs():
    stream = {"output_type": "stream", "text": ["1\n"]}
    dump = {"output_type": "stream", "text": "x" * 2000}
    picture = {"output_type": "display_data", "data": {"image/png": "aaaa", "text/plain": "<Figure>"}}
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no"}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [stream, dump, picture, error]},
        {"cell_type": "code", "source": "", "outputs": []},
        {"cell_type": "raw", "source": "raw"},
    ]
    data = json.dumps({"cells": cells, "metadata": {"language_info": {"name": "julia"}}, "nbformat": 4})
    found = read_document("a.ipynb", data.encode())
    assert found.title == "Title"
    assert (
        found.text
        == """# Title
text

```julia
print(1)
```

```text
1
```

```text
<Figure>
```

```text
ValueError: no
```

raw
"""
    )


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"cells": 3}', b'{"a": 1}'])
def test_json_that_is_no_notebook_is_set_aside(data):
    with pytest.raises(DocumentError, match="it is no notebook: "):
        read_document("a.ipynb", data)


def mail(**bodies: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Grüße from Zürich"
    message["From"] = "Ann <ann@example.org>"
    message["To"] = "bo@example.org"
    message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0100"
    if "plain" in bodies:
        message.set_content(bodies["plain"])
    if "html" in bodies:
        (message.add_alternative if "plain" in bodies else message.set_content)(bodies["html"], subtype="html")
    return message


def test_an_email_is_its_body_under_its_subject():
    message = mail(plain="Dear Bo,\n\n# not a heading\n\n-- \nAnn\n", html="<p>other</p>")
    message.add_attachment(b"x", maintype="application", subtype="pdf", filename="plan.pdf")
    found = read_document("a.eml", message.as_bytes())
    assert found.text == "# Grüße from Zürich\n\nDear Bo,\n\n\\# not a heading\n\n\nAnn\n"
    assert found.title == "Grüße from Zürich"
    assert found.metadata == {
        "from": "Ann <ann@example.org>",
        "to": "bo@example.org",
        "date": "2024-03-05T10:00:00+01:00",
        "attachments": ["plan.pdf"],
    }


@pytest.mark.parametrize(
    "date", ["01 Jan 2024 00:00:00 +99999999999999999999", "01 Jan 99999999999999999999 00:00:00 Z"]
)
def test_an_email_whose_date_no_clock_can_have_shown_has_none(date):
    """It was set aside for that."""
    found = read_document("a.eml", f"Subject: s\nDate: Mon, {date}\n\nWords.\n".encode())
    assert (found.text, found.metadata) == ("# s\n\nWords.\n", {})


def test_an_email_in_html_alone_is_converted():
    assert read_document("a.eml", mail(html="<h2>News</h2><ul><li>a</ul>").as_bytes()).text == (
        "# Grüße from Zürich\n\n## News\n\n- a\n"
    )


def test_flowed_lines_of_an_email_are_joined():
    data = b"Subject: s\nContent-Type: text/plain; format=flowed\n\nOne long \nline.\n> quoted \n> here\n"
    assert read_document("a.eml", data).text == "# s\n\nOne long line.\n\\> quoted\n\\> here\n"


def test_text_that_is_no_email_is_set_aside():
    with pytest.raises(DocumentError, match="it is no e-mail: it has none of From, To, Subject and Date"):
        read_document("a.eml", b"just words\n")


RST = """
=====
Guide
=====

Uses ``code``, a `link <https://example.org>`_, :func:`~os.path.join` and :ref:`the setup <setup>`.

Section
=======

.. note:: Mind the gap.

.. code-block:: python
   :linenos:

   def f(x):
       return x < 2

.. versionadded:: 3.2
   New *things*.

.. toctree::

   other

.. include:: /etc/passwd

.. raw:: html

   <script>alert(1)</script>

- one

  1. nested

===  ===
a    b
===  ===
1    2
===  ===

Term
   Meaning.
"""


def test_restructuredtext_keeps_its_structure_and_the_words_of_sphinx():
    found = read_document("a.rst", RST.encode())
    assert found.title == "Guide"
    assert (
        found.text
        == """# Guide

Uses `code`, a link, `os.path.join` and the setup.

## Section

Note

Mind the gap.

```python
def f(x):
    return x < 2
```

New in version 3.2 New things.

- one
  1. nested

| a | b |
| --- | --- |
| 1 | 2 |

- Term: Meaning.
"""
    )
