"""The heart of Causeway: stamps, the causal order, delivery policies, truth and violations.

Pure algorithms without I/O, in the papers' names. `docs/evidence/algorithms.md` states them; `kernels` holds the same
in numba.
"""
