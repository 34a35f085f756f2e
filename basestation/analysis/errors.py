"""The one error of the analysis."""


class JobError(Exception):
    """What can't be analysed, and what was asked wrongly: the base of all errors that `spark_jobs` raises on purpose.
    The message says what is wrong and what to do, in one line."""
