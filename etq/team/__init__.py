"""What a team's server keeps beside its warehouse: users and their tokens, captures that wait, an audit log.

It is a folder, `lab.duckdb.team` beside the warehouse `lab.duckdb`, with a SQLite database and the files that wait.
A server whose folder has users answers nobody else.
"""
