"""What was spent this month, against the budget."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.health.verdicts import Verdict, fails, passes
from rag_assets.health.view import View
from rag_assets.storing.tables import Table, sql_literal


def monthly_spend(view: View) -> Verdict:
    """What the corpus cost since the month began (UTC), in embeddings and answers, is within `budget_per_month`.

    An answer from several corpora counts for the first that it names, whose model wrote it where that one has an index.
    """
    month = view.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    spent = _sum(view.store.spend(), "spent_at", "cost_usd", view.corpus.name, month)
    spent += _sum(view.store.answers(), "asked_at", "usage", view.corpus.name, month)
    budget = view.corpus.budget_per_month
    figures = {"spent_this_month_usd": spent}
    told = f"${spent:,.4f} were spent since {month:%-d %B}"
    if budget is None:
        return passes(f"{told}; no budget_per_month is set.", figures)
    if spent > budget:
        remedy = "raise budget_per_month, or lower max_cost_per_run and see which runs cost what (the table spend)"
        return fails(f"{told}, and budget_per_month is ${budget:,.2f}: {remedy}", figures)
    return passes(f"{told}, of ${budget:,.2f}.", figures)


def _sum(table: Table, time: str, cost: str, corpus: str, since: datetime) -> float:
    named = f"(corpus = {sql_literal(corpus)} OR starts_with(corpus, {sql_literal(f'{corpus}, ')}))"
    where = f"{named} AND {time} >= timestamp '{since:%Y-%m-%d %H:%M:%S}'"
    costs = table.read([cost], where=where)[cost].combine_chunks()
    if pa.types.is_struct(costs.type):
        costs = pc.struct_field(costs, "cost_usd")
    return float(pc.sum(costs).as_py() or 0.0)
