"""Floor 5. Arguments and environment in, exit code out; the only place that prints.

``app`` holds the commands; each command's body lives in the module of its name and is imported
when it runs, so that ``perfgate --help`` stays quick and needs no numeric or network library.
"""
