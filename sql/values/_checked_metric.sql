-- The name of a metric in lower case; an error if there is no such metric.
CREATE MACRO _checked_metric(metric) AS (
    CASE
        WHEN lower(metric) IN ('mse', 'l1', 'snr', 'cosine', 'max_abs', 'max_rel') THEN lower(metric)
        ELSE error(
            'unknown metric ' || coalesce(metric, 'NULL') || '; known are mse, l1, snr, cosine, max_abs, max_rel'
        )
    END
);
