"""etq's questions on Apache Spark: executors answer them with DuckDB, on the files of a lake.

    import etq.spark

    etq.spark.sql(spark, "FROM regressions('device=pixel8', over := 'build')", "s3a://lab/lake").show()
    etq.spark.sql(spark, "FROM op_totals($capture)", "s3a://lab/lake", captures="model=mlp").show()
    etq.spark.register(spark, "s3a://lab/lake")  # the tables, for Spark's own SQL

Needs `pip install 'etq[spark]'`, also where the executors run.
"""

from etq.spark.queries import sql
from etq.spark.session import register

__all__ = ["register", "sql"]
