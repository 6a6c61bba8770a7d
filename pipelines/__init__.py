"""The pipelines that come with the product: each module declares one as `PIPELINE`.

docs/pipelines.md explains how to write one; `manage.py pipeline new NAME` creates one.
"""
