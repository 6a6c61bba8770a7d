"""The shipped pipelines: each module is one, with its declaration `PIPELINE`.

docs/pipelines.md says how to write one; `manage.py pipeline new NAME` begins one.
"""
