"""Metrics as text in the exposition format of Prometheus, version 0.0.4."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rag_assets.monitoring.metrics import METRICS, Metric, Observation

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def as_text(seen: Sequence[Observation], metrics: Iterable[Metric] = METRICS) -> str:
    """Every metric with its samples, those of one metric together, as the format asks for."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric, seen))


def _lines(metric: Metric, seen: Sequence[Observation]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.meaning.translate(_IN_HELP)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for one in seen:
        for labels, value in metric.samples(one):
            yield f"{metric.name}{_labels({'corpus': one.corpus, **labels})} {_number(value)}"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_IN_LABEL)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
