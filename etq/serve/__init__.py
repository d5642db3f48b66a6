"""A warehouse or lake in a browser: `etq serve`.

Pages are shells that fetch their data; data are answers of views, as reports and commands have them. `app` has the
routes, `guard` decides who may ask, `pool` runs questions in processes of their own (`worker`), which open the
warehouse for reading, answer one question of `questions`, and close it. No number is defined here.
"""
