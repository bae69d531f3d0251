"""Parse: the lower storey of the border; one parser for each thing that people bring."""
