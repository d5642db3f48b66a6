"""A warehouse or lake in a browser: `etq serve`.

A page is a shell that fetches its data. The data are rows of the views that reports and commands use, too. `app` has
the routes, `access` decides who may send requests, `instance` is the open warehouse, `questions` has the data of pages,
and `pushes` stores captures that are sent. No number is defined here.
"""
