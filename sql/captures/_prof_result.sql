-- The one capture that an argument means, if it is of format prof_result; else
-- it is an error. Views that answer as ExecuTorch's parser of that format ask it.
-- Columns:
--   capture_id: the capture
--   time_scale: what one of its ticks is
CREATE MACRO _prof_result(
    capture  -- as everywhere
) AS TABLE
SELECT
    CASE c.format
        WHEN 'prof_result' THEN c.capture_id
        ELSE error(
            c.name || ' is of format ' || c.format
            || '; this is asked of captures of format prof_result'
        )
    END AS capture_id,
    c.time_scale
FROM _capture(capture, NULL) AS a
JOIN captures AS c ON c.capture_id = a.capture_id;
