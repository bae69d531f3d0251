"""Speed and memory of fedlab_mini beside other packages: ``python -m tools.benchmarks``.

Not part of the tests: the figures depend on the machine. README.md says what is compared with what.
"""
