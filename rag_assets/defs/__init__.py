"""Things that exist in Dagster: assets, checks, jobs, sensors. What they do is in the packages beside this one."""

import warnings

from dagster_shared.utils.warnings import BetaWarning

# One run for many partitions, and owners, are marked as beta; the platform is built on both, and its tests cover them.
warnings.filterwarnings("ignore", category=BetaWarning)
