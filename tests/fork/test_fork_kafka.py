"""A fork on the real Kafka, through the command line."""
