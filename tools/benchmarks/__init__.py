"""Speed and memory of fedlab_mini beside other packages: ``python -m tools.benchmarks``.

Not part of the tests, because the figures depend on the machine. README.md lists the comparisons.
"""
