"""etq's views on Apache Spark: the tables are a lake of Parquet files, and the views have the same SQL as in DuckDB.

    import etq.spark

    etq.spark.ingest(spark, "s3a://lab/captures/*/*.etdp", "/mnt/lab/lake", label_from="{model}/{build}.etdp")
    etq.spark.register(spark, "/mnt/lab/lake")
    etq.spark.sql(spark, "FROM op_totals('run', unit := 'us') LIMIT 5").show()

Queries are in DuckDB's SQL. `etq views NAME` shows which engines support a view. Needs `pip install 'etq[spark]'`.
"""

from etq.spark.ingestion import Ingested, ingest
from etq.spark.session import register, sql
from etq.spark.transpiling import engines, spark_sql

__all__ = ["Ingested", "engines", "ingest", "register", "spark_sql", "sql"]
