"""The log as tables: DuckDB derived from the typed events, named queries, the query server. See docs/audit.md."""
