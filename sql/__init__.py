"""The SQL of etq: base tables, views and macros, one topic a file; `etq.catalog` reads them."""
