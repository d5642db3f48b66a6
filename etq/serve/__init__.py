"""A warehouse or lake in a browser: `etq serve`.

Pages are shells that fetch their data, which are rows of the same views as in reports and commands. `app` has the
routes, `access` decides who may send requests, `instance` is the open warehouse, `questions` has the data of pages, and
`pushes` stores captures that are sent. No number is defined here.
"""
