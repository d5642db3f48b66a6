-- The one capture that an argument matches, which must be of format prof_result. Used by views that reproduce the
-- results of ExecuTorch's parser of that format.
CREATE MACRO _prof_result(capture) AS TABLE
SELECT
    CASE c.format
        WHEN 'prof_result' THEN c.capture_id
        ELSE error(c.name || ' is of format ' || c.format || '; this view is for captures of format prof_result')
    END AS capture_id,
    c.time_scale
FROM _capture(capture, NULL) AS a
JOIN captures AS c USING (capture_id);
