"""What `corpora.yaml` may say of a source, and that no secret is among it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.config import CorpusSettings, WebSettings, load_settings
from rag_assets.errors import ConfigError


def corpus_with(folder: Path, **keys: Any) -> CorpusSettings:
    path = folder / "corpora.yaml"
    path.write_text(yaml.safe_dump({"corpora": {"notes": keys}}), encoding="utf-8")
    return load_settings(path).corpora["notes"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("docs.zip", "{folder}/docs.zip"),
        ("zip://docs::archives/docs.zip", "zip://docs::{folder}/archives/docs.zip"),
        ("zip://docs::s3://bucket/docs.zip", "zip://docs::s3://bucket/docs.zip"),
        ("odd::folder", "{folder}/odd::folder"),
        ("github://org:repo@main/docs", "github://org:repo@main/docs"),
        ("abfs://container@account.dfs.core.windows.net/docs", "abfs://container@account.dfs.core.windows.net/docs"),
    ],
)
def test_what_is_relative_in_an_address_is_relative_to_the_file(tmp_path: Path, source: str, expected: str):
    assert corpus_with(tmp_path, source=source).source == expected.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("source", "urls", "sitemap"),
    [
        ("https://Example.com", ["https://example.com/"], None),
        ("https://example.com/sitemap.xml", [], "https://example.com/sitemap.xml"),
        ("https://example.com/sitemap.xml.gz?v=2", [], "https://example.com/sitemap.xml.gz?v=2"),
        ({"urls": ["http://example.com:80/a b#c"]}, ["http://example.com/a%20b"], None),
        ({"urls": ["https://example.com:8443/%7Ea?q=ä"]}, ["https://example.com:8443/%7Ea?q=%C3%A4"], None),
    ],
)
def test_addresses_of_the_web_are_pages_or_a_sitemap(tmp_path: Path, source: Any, urls: list[str], sitemap: str | None):
    found = corpus_with(tmp_path, source=source).source
    assert isinstance(found, WebSettings)
    assert (list(found.urls), found.sitemap) == (urls, sitemap)


def test_pages_of_the_web_are_looked_at_once_an_hour_unless_the_file_says_otherwise(tmp_path: Path):
    assert corpus_with(tmp_path, source="https://example.com").scan_seconds == 3600
    assert corpus_with(tmp_path, source="https://example.com", scan_seconds=60).scan_seconds == 60
    assert corpus_with(tmp_path, source="docs").scan_seconds == 30


def test_a_source_is_shown_in_a_few_words(tmp_path: Path):
    assert str(corpus_with(tmp_path, source="https://example.com/a").source) == "https://example.com/a"
    assert str(corpus_with(tmp_path, source={"urls": ["https://a/", "https://b/"]}).source) == "2 pages of the web"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "corpora.notes.source: names no page; give it urls, a list of addresses, or sitemap"),
        ({"url": "https://a/"}, "corpora.notes.source.url: unknown key; did you mean 'urls'?"),
        ({"urls": "https://a/"}, "corpora.notes.source.urls: 'https://a/' is not allowed; it is a list"),
        ({"urls": ["docs/"]}, "corpora.notes.source.urls: 'docs/' is not an address of the web"),
        ({"urls": ["https://a:b/"]}, "'https://a:b/' is not an address: Port could not be cast"),
        ({"sitemap": "ftp://a/sitemap.xml"}, "corpora.notes.source.sitemap: 'ftp://a/sitemap.xml' is not an address"),
        ({"urls": ["https://a/"], "concurrency": 99}, "corpora.notes.source.concurrency: 99 is not allowed"),
        (["docs"], "corpora.notes.source: ['docs'] is not allowed; it is a string, a folder or an address"),
    ],
)
def test_a_source_that_cannot_be_is_told_with_its_key(tmp_path: Path, source: Any, said: str):
    with pytest.raises(ConfigError) as caught:
        corpus_with(tmp_path, source=source)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("source", "key", "variable"),
    [
        ("s3://b", "key", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://b", "secret", "AWS_SECRET_ACCESS_KEY"),
        ("gs://b", "token", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfs://b", "account_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("abfs://b", "connection_string", "AZURE_STORAGE_CONNECTION_STRING"),
        ("github://o:r@main", "token", "GITHUB_TOKEN"),
        ("sftp://h/docs", "password", "FSSPEC_SFTP_OPTION"),
    ],
)
def test_a_secret_in_the_options_is_refused_with_the_variable_to_set_and_not_repeated(
    tmp_path: Path, source: str, key: str, variable: str
):
    with pytest.raises(ConfigError) as caught:
        corpus_with(tmp_path, source=source, source_options={key: "hunter2"})
    assert f"corpora.notes.source_options: {key} looks like a secret" in str(caught.value)
    assert variable in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_secret_further_inside_is_refused_too(tmp_path: Path):
    with pytest.raises(ConfigError, match="aws_secret_access_key looks like a secret"):
        corpus_with(tmp_path, source="s3://b", source_options={"client_kwargs": {"aws_secret_access_key": "hunter2"}})


@pytest.mark.parametrize(
    "source", ["sftp://me:hunter2@host/docs", "zip://::ftp://me:hunter2@host/a.zip", "https://me:hunter2@example.com/a"]
)
def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path, source: str):
    with pytest.raises(ConfigError, match="holds a (user name or )?password") as caught:
        corpus_with(tmp_path, source=source)
    assert "hunter2" not in str(caught.value)


def test_what_is_no_secret_may_be_given(tmp_path: Path):
    options = {"endpoint_url": "http://127.0.0.1:9000", "region": "eu", "anon": True, "client_kwargs": {"verify": True}}
    assert corpus_with(tmp_path, source="s3://b", source_options=options).source_options == options


def test_options_are_not_for_pages_of_the_web(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"corpora\.notes\.source_options: is for stores, not for pages of the web"):
        corpus_with(tmp_path, source="https://example.com", source_options={"timeout": 3})
