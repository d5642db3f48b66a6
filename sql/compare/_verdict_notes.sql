-- What an unstable total has: some captures of new, or its only one, are slower.
CREATE MACRO _unstable_note(
    is_single,  -- whether each side is a single capture, compared with a history
    is_uneven,  -- whether new has more slow captures than base
    slow_news,  -- number of disturbed captures of new that are slower
    news,  -- number of captures of new
    off,  -- their deviation, as a logarithm
    all_change  -- change of the total of all captures, as a fraction
) AS (
    CASE
        WHEN is_single THEN
            'all ops of new took ' || printf('%.0f', 100 * (exp(off) - 1))
            || ' % more than in its history, by this build or by a disturbed machine: '
            || 'take 2 more captures of base and of new'
        WHEN is_uneven THEN
            slow_news || ' of ' || news || ' captures of new took '
            || printf('%.0f', 100 * (exp(off) - 1)) || ' % more than the others and '
            || 'are left out of the change: measure both again, in turns'
        ELSE
            '+' || printf('%.1f', 100 * all_change) || ' % with disturbed captures, '
            || 'which are left out of the change: measure both again, in turns'
    END
);

-- How many more captures of which side are needed for a verdict.
CREATE MACRO _too_few_note(
    is_single,  -- whether each side is a single capture, compared with a history
    histories,  -- number of captures of the history
    base_captures,  -- number of captures of base used
    new_captures,  -- number of captures of new used
    excluded  -- number of disturbed captures of both sides
) AS (
    'take ' || concat_ws(
        ' and ',
        CASE WHEN base_captures < 3 THEN (3 - base_captures) || ' more of base' END,
        CASE WHEN new_captures < 3 THEN (3 - new_captures) || ' more of new' END
    )
    || CASE
        WHEN is_single THEN
            ', or ' || (10 - histories) || ' more captures of the program of base for '
            || 'its history'
        ELSE ', better 5 per side'
    END
    || CASE excluded
        WHEN 0 THEN ''
        WHEN 1 THEN ', as 1 disturbed capture is excluded'
        ELSE ', as ' || excluded || ' disturbed captures are excluded'
    END
    || ': the runs of one capture share the state of the device'
);

-- The largest difference of successive captures of the history, as a note.
CREATE MACRO _single_note(
    change,  -- change, as a fraction
    score,  -- the change in standard deviations
    worst_score  -- greatest change of two successive captures of the history, in these
) AS (
    'single captures of its history differ by up to ' || printf(
        '%.1f', 100 * (exp(abs(ln(1 + change)) * worst_score / score) - 1)
    ) || ' %: take 2 more per side, better 4'
);

-- Why the clock cannot show a change.
CREATE MACRO _clock_note(
    resolution,  -- value that the times are multiples of, in ticks
    base_ticks  -- median time in captures of base, in ticks
) AS (
    'below the clock''s resolution: it counts in steps of ' || _length(resolution)
    || ', and this takes ' || _length(base_ticks) || ': changes under '
    || printf('%.0f', ceil(100 * resolution / base_ticks)::DOUBLE)
    || ' % cannot be measured'
);
