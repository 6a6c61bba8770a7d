"""A pipeline as a graph: its sources, operators, stores and sinks, by Spark's plan of it."""

from __future__ import annotations

from typing import Any

from streaming.pipelines.declaration import Pipeline, Sink
from streaming.pipelines.query import Built, TopicLayout
from wire.pipeline import Node

PER_KEY = "state per key"
# Spark's operators, and our words for them; others are named as Spark names them.
WORDS = {
    "Project": "columns",
    "Filter": "filter",
    "Aggregate": "aggregate",
    "Join": "join",
    "Union": "union",
    "EventTimeWatermark": "watermark",
    "Deduplicate": "deduplicate",
    "DeduplicateWithinWatermark": "deduplicate within the watermark",
    "TransformWithState": PER_KEY,
    "TransformWithStateInPandas": PER_KEY,
    "TransformWithStateInPySpark": PER_KEY,
    "FlatMapGroupsWithState": PER_KEY,
    "FlatMapGroupsInPandasWithState": PER_KEY,
    "MapInPandas": "Python over rows",
    "PythonMapInArrow": "Python over rows",
    "Generate": "explode",
    "Expand": "windows",
    "Repartition": "repartition",
    "RepartitionByExpression": "repartition by key",
}
STATEFUL = {
    "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "TransformWithState",
    "TransformWithStateInPandas", "TransformWithStateInPySpark", "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
}  # fmt: skip
# Steps of Spark that are none of the pipeline's.
SILENT = {"SubqueryAlias", "DeserializeToObject", "SerializeFromObject"}
MOST_OPERATORS = 60


def graph_of(pipeline: Pipeline, built: Built, places: TopicLayout) -> tuple[Node, ...]:
    """Return the parts of a pipeline, sources first, sinks last."""
    nodes = [
        Node(f"source-{name}", "source", ", ".join(places.sources[name]), detail=name)
        for name in pipeline.sources
    ]
    nodes += [
        Node(f"source-{name}", "source", ", ".join(topics), detail=f"{name}, global table")
        for name, topics in places.tables.items()
    ]
    walk = _Walk(pipeline, {_plan(frame): f"source-{name}" for name, frame in built.frames.items()})
    last = walk.visit(built.result._jdf.queryExecution().logical())  # noqa: SLF001
    nodes += walk.nodes[:MOST_OPERATORS]
    nodes += [
        Node(f"sink-{sink.topic}", "sink", sink.topic, _sink_detail(sink), inputs=last)
        for sink in pipeline.sinks
    ]
    if pipeline.prints is not None:
        nodes.append(Node("sink-print", "sink", "the log", pipeline.prints.label, inputs=last))
    if pipeline.table is not None:
        nodes.append(Node("sink-table", "sink", "Delta table, by day", inputs=last))
    return tuple(nodes)


def _sink_detail(sink: Sink) -> str:
    if sink.emission.on:
        return f"table, gathers {sink.emission.every_ms} ms"
    return f"partition {sink.partitioner.__name__}" if sink.partitioner else ""


def _plan(frame: Any) -> Any:
    return str(frame._jdf.queryExecution().logical().canonicalized().hashCode())  # noqa: SLF001


class _Walk:
    """Goes from the result up to the frames that the transform was given."""

    def __init__(self, pipeline: Pipeline, sources: dict[str, str]) -> None:
        self._pipeline, self._sources = pipeline, sources
        self.nodes: list[Node] = []

    def visit(self, plan: Any) -> tuple[str, ...]:
        """Add a plan's operators; return the ids of the parts that its rows come from."""
        if (source := self._sources.get(str(plan.canonicalized().hashCode()))) is not None:
            return (source,)
        children = plan.children()
        inputs = tuple(
            dict.fromkeys(
                id_ for at in range(children.size()) for id_ in self.visit(children.apply(at))
            )
        )
        name = str(plan.nodeName())
        if name in SILENT or (name == "Project" and self._repeats(inputs)):
            return inputs
        return self._add(name, inputs, streaming=bool(plan.isStreaming()))

    def _repeats(self, inputs: tuple[str, ...]) -> bool:
        """Return whether the rows come from columns being chosen already."""
        return (
            bool(self.nodes) and inputs == (self.nodes[-1].id,) and self.nodes[-1].name == "columns"
        )

    def _add(self, name: str, inputs: tuple[str, ...], *, streaming: bool) -> tuple[str, ...]:
        id_ = f"operator-{len(self.nodes) + 1}"
        stateful = streaming and (name in STATEFUL or (name == "Join" and len(inputs) > 1))
        self.nodes.append(
            Node(
                id_,
                "operator",
                WORDS.get(name, name),
                detail="stateful" if stateful else "stateless",
                inputs=inputs,
            )
        )
        if stateful:
            named = self._pipeline.stores if WORDS.get(name) == PER_KEY else ()
            for store in named or ("",):
                self.nodes.append(self._store(store, id_))
        return (id_,)

    def _store(self, name: str, operator: str) -> Node:
        """Return a store of an operator; name: empty for its only one."""
        partitions = f"state partitions: {self._pipeline.parallelism.state_partitions}"
        backend = self._pipeline.state
        return Node(
            f"store-{len(self.nodes)}",
            "store",
            name or backend,
            detail=f"{backend}, {partitions}" if name else partitions,
            inputs=(operator,),
        )
