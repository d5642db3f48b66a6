"""A warehouse or lake in a browser: `etq serve`.

Pages are shells that fetch their data; data are answers of views, as reports and commands have them. `app` has the
routes, `access` decides who may ask, `instance` is the open warehouse, `questions` are what pages ask, and `pushes`
stores what is sent. No number is defined here.
"""
