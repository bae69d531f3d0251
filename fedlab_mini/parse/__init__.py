"""Parse: one parser for each kind of thing that people bring, such as a metric or a module."""
