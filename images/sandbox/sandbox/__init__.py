"""The sandbox service: programs and their tests in, verdicts out that the program cannot forge.

A package of its own that imports nothing of the product. `service` answers HTTP; `pool` owns the workers. Each worker
is three warm processes: a judge (`judge`); a nursery (`nursery`), which never sees an item and forks the examiners
(`examiner`) that run the tests; and a zygote (`zygote`), which never sees a test and forks one jailed child (`program`)
per candidate program. Examiner and child meet over one socket, in plain data only (`wire`). README.md one folder up
says what is promised.
"""
