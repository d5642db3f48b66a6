-- Why a capture of another format has no rows.
CREATE MACRO _why_not_prof_result(capture_name, format) AS (
    capture_name || ' is of format ' || format || '; this view is for captures of format prof_result'
);

-- The one capture that an argument matches, which must be of format prof_result. Used by views that reproduce the
-- results of ExecuTorch's parser of that format.
CREATE MACRO _prof_result(capture) AS TABLE
SELECT
    CASE c.format
        WHEN 'prof_result' THEN c.capture_id
        ELSE _lacking(capture, _why_not_prof_result(c.name, c.format))
    END AS capture_id,
    c.time_scale
FROM _capture(capture, NULL) AS a
JOIN captures AS c USING (capture_id);
