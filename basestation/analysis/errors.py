"""The one error of the analysis."""


class JobError(Exception):
    """An input that can't be analysed, or a wrong request: the base of all errors that `spark_jobs` raises on purpose.
    The message says what is wrong and what to do, in one line."""
