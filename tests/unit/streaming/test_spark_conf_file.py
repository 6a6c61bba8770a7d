"""The file of TALLYBOARD_SPARK_CONF: what it may say, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.settings import Settings
from streaming.spark.conf_file import SparkConfProblem, read_conf, with_file
from streaming.spark.session import spark_conf

GOOD = """\
# executors
spark.executor.memory 2g
spark.executor.cores=4
spark.cores.max  8

spark.kubernetes.container.image = registry/tallyboard:1
spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY s3:key
spark.hadoop.hadoop.security.credential.provider.path jceks://file/etc/s3.jceks
spark.hadoop.fs.s3a.endpoint http://s3:9000/?a=b
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "spark.conf"
    file.write_text(text)
    return file


def ours(folder: Path) -> dict[str, str]:
    settings = Settings(data_dir=folder, spark_master="spark://m:7077", _env_file=None)  # type: ignore[call-arg]
    return spark_conf(settings, 4, ())


def test_names_and_values_come_as_they_are_written(tmp_path: Path) -> None:
    settings = read_conf(written(tmp_path, GOOD), ours(tmp_path))
    assert len(settings) == 7
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.executor.cores"] == "4"
    assert settings["spark.cores.max"] == "8"
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://s3:9000/?a=b"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("spark.master spark://other:7077", "is set by TALLYBOARD_SPARK_MASTER: leave it out here"),
        ("spark.driver.memory 4g", "is set by TALLYBOARD_SPARK_MEMORY"),
        ("spark.pyspark.python=/opt/python", "is set by TALLYBOARD_SPARK_PYTHON"),
        ("spark.sql.shuffle.partitions 200", "is set by the product: leave it out"),
        ("spark.authenticate.enableSaslEncryption true", "is set by the product"),
        ("spark.plugins a.B", "is set by the product"),
        ("spark.jars.packages a:b:1", "is set by the product"),
        ("spark.authenticate.secret of-ours", "is set by TALLYBOARD_SPARK_SECRET_FILE"),
        ("spark.hadoop.fs.s3a.secret.key of-ours", "is a secret, and this file holds none: put it"),
        ("spark.hadoop.fs.s3a.access.key of-ours", "is a secret"),
        ("spark.ssl.keyPassword of-ours", "is a secret"),
        ("spark.executor.extraJavaOptions -Dx.password=of-ours", "holds a secret"),
        ("spark.cores.max 4\nspark.cores.max 5", "line 3: spark.cores.max is there twice"),
        ("executor.memory 2g", "'executor.memory': expected `spark.name value`"),
        ("spark.executor.memory", "'spark.executor.memory': expected `spark.name value`"),
        ("spark.executor.memory 2g \\", "expected its value in one line"),
    ],
)  # fmt: skip
def test_what_it_may_not_say_is_named_with_file_line_and_advice(
    tmp_path: Path, line: str, why: str
) -> None:
    file = written(tmp_path, f"# executors\n{line}\n")
    with pytest.raises(SparkConfProblem) as problem:
        read_conf(file, ours(tmp_path))
    text = str(problem.value)
    assert text.startswith(f"TALLYBOARD_SPARK_CONF: {file}, line ")
    assert why in text
    assert "of-ours" not in text  # no secret in a message


def test_every_name_that_the_product_sets_is_refused(tmp_path: Path) -> None:
    ours_now = ours(tmp_path)
    for name in ours_now.keys() - {"spark.executor.extraJavaOptions"}:
        with pytest.raises(SparkConfProblem, match=name.replace(".", "\\.")):
            read_conf(written(tmp_path, f"{name} value"), ours_now)


def test_options_of_executors_java_are_added_to_the_products(tmp_path: Path) -> None:
    file = written(tmp_path, "spark.executor.extraJavaOptions -XX:+UseZGC -Dlog4j2.a=b\n")
    conf = with_file(file, ours(tmp_path))
    own = ours(tmp_path)["spark.executor.extraJavaOptions"]
    assert conf["spark.executor.extraJavaOptions"] == f"{own} -XX:+UseZGC -Dlog4j2.a=b"


def test_a_file_that_is_not_there_or_is_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SparkConfProblem, match=r"nowhere: cannot be read: No such file"):
        read_conf(tmp_path / "nowhere", ())
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SparkConfProblem, match="expected text in UTF-8"):
        read_conf(file, ())
