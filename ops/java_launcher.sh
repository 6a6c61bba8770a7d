#!/bin/sh
# The Java of the Python registry, as Spark can start it: Spark's launcher always asks for a module
# that this runtime does not have, and that nothing here uses; Java would end at once.
for argument do
	shift
	[ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/../runtime/bin/java" "$@"
