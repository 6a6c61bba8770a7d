#!/bin/sh
# The image's entry: runs the command that it is given. Spark on Kubernetes gives executors none but
# the word `executor`, and says the rest in the environment.
if [ "$*" = executor ]; then
	set -- python -m ops.executor
fi
exec "$@"
