"""etq's questions on Apache Spark: the tables are a lake, and the SQL is that of the views in DuckDB.

    import etq.spark

    etq.spark.ingest(spark, "s3a://lab/captures/*/*.etdp", "s3a://lab/lake", label_from="{model}/{build}.etdp")
    etq.spark.register(spark, "s3a://lab/lake")
    etq.spark.sql(spark, "FROM op_totals('run', unit := 'us') LIMIT 5").show()

Queries are in DuckDB's SQL. `etq views NAME` shows which engines answer a view. Needs `pip install 'etq[lake,spark]'`.
"""

from etq.spark.ingestion import Ingested, ingest
from etq.spark.session import register, sql
from etq.spark.transpiling import engines, spark_sql

__all__ = ["Ingested", "engines", "ingest", "register", "spark_sql", "sql"]
