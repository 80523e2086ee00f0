"""E-mails: the subject is the title, sender, date and recipients are metadata, the body is the text.

A body in plain text is preferred to its twin in HTML. Attachments are named in the metadata and not read.
"""

import email.utils
import re
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser

from rag_assets.errors import DocumentError
from rag_assets.reading.content import Content, clean, one_line
from rag_assets.reading.decoding import decode
from rag_assets.reading.html import page_content
from rag_assets.reading.markdown_writing import heading, join_blocks, prose_lines

_HEADERS = {"from": "From", "to": "To", "cc": "Cc", "date": "Date", "message_id": "Message-ID"}
_SIGNATURE = re.compile(r"^-- $", re.MULTILINE)


def read(data: bytes) -> Content:
    """`data` as Markdown under a heading with the subject. Raises `DocumentError` when it has no header of an e-mail."""
    message = BytesParser(policy=policy.default).parsebytes(data.lstrip())
    if not isinstance(message, EmailMessage) or not any(name in message for name in ("From", "Subject", "Date", "To")):
        raise DocumentError("it is no e-mail: it has none of From, To, Subject and Date; rename it, or exclude it")
    subject = _header(message, "Subject")
    body = message.get_body(("plain", "html"))
    text, lossy = _text_of(body) if body is not None else ("", False)
    metadata: dict[str, object] = {
        key: _header(message, name) for key, name in _HEADERS.items() if _header(message, name)
    }
    attachments = [one_line(part.get_filename() or "") for part in message.iter_attachments()]
    if any(attachments):
        metadata["attachments"] = [name for name in attachments if name]
    return Content(clean(join_blocks([heading(1, subject), text])), title=subject, metadata=metadata, lossy=lossy)


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = message.get(name)
    except OverflowError:  # a date with a year or zone that no date has, parsed when it is asked for
        return ""
    if value is None:
        return ""
    if name == "Date":
        try:
            return email.utils.parsedate_to_datetime(str(value)).isoformat()
        except ValueError:
            return one_line(str(value))
    return one_line(str(value))


def _text_of(part: MIMEPart) -> tuple[str, bool]:
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    decoded = decode(raw, declared=part.get_content_charset())
    if part.get_content_subtype() == "html":
        return page_content(decoded.text).text.strip("\n"), decoded.lossy
    text = _unflowed(decoded.text) if part.get_param("format") == "flowed" else decoded.text
    text = _SIGNATURE.sub("", text)
    return prose_lines("\n".join(line.rstrip() for line in text.split("\n"))).strip("\n"), decoded.lossy


def _unflowed(text: str) -> str:
    """Lines that end in a blank go on in the next one (RFC 3676)."""
    lines: list[str] = []
    open_line = False
    for raw in text.split("\n"):
        line = raw.removeprefix(" ")
        if open_line and not line.startswith(">"):
            lines[-1] += line
        else:
            lines.append(line)
        open_line = line.endswith(" ") and line != "-- "
    return "\n".join(lines)
