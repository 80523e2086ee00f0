"""Questions with known answers become figures: how well the published index finds, answers and cites."""
