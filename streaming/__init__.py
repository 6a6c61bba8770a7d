"""The Spark job: source topics in, the fold inside `transformWithState`, sink topics out."""
