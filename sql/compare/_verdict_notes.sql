-- What an unstable total has: some captures of new, or its only one, are slower.
CREATE MACRO _unstable_note(
    is_single,  -- whether each side is a single capture, compared with a history
    is_uneven,  -- whether new has more slow captures than base
    slow_news,  -- number of disturbed captures of new that are slower
    news,  -- number of captures of new
    off,  -- their deviation, as a logarithm
    all_change,  -- change of the total of all captures, as a fraction
    is_interleaved  -- whether the sides were measured in turns
) AS (
    CASE
        WHEN is_single THEN
            'all ops of new took ' || printf('%.0f', 100 * (exp(off) - 1))
            || ' % more than in its history, by this build or by a disturbed machine: '
            || 'take 2 more captures of base and of new'
        WHEN is_uneven THEN
            slow_news || ' of ' || news || ' captures of new took '
            || printf('%.0f', 100 * (exp(off) - 1)) || ' % more than the others and '
            || 'are left out of the change: ' || _again(is_interleaved)
        ELSE
            '+' || printf('%.1f', 100 * all_change) || ' % with disturbed captures, '
            || 'which are left out of the change: ' || _again(is_interleaved)
    END
);

-- What to do if a disturbed machine hides the difference.
CREATE MACRO _again(
    is_interleaved  -- whether the sides were measured in turns
) AS (
    CASE
        WHEN is_interleaved THEN 'measure more captures of both'
        ELSE 'measure both again, in turns'
    END
);

-- Why a change is not decided that the captures without disturbed ones show.
CREATE MACRO _left_out_note(
    excluded,  -- number of disturbed captures of both sides
    change,  -- change with these, as a fraction
    low,  -- lower end of its interval; NULL if there is none
    high,  -- upper end
    is_interleaved  -- whether the sides were measured in turns
) AS (
    'it depends on ' || excluded || ' disturbed capture'
    || CASE excluded WHEN 1 THEN '' ELSE 's' END || ' that '
    || CASE excluded WHEN 1 THEN 'is' ELSE 'are' END || ' left out: with '
    || CASE excluded WHEN 1 THEN 'it' ELSE 'them' END || ' '
    || printf('%+.1f', 100 * change) || ' %' || coalesce(
        ' (' || printf('%+.1f', 100 * low) || ' to ' || printf('%+.1f', 100 * high)
        || ' %)', ''
    ) || '; ' || _again(is_interleaved)
);

-- Why a difference that may count is not shown, and how many captures would show it.
CREATE MACRO _noise_note(
    difference,  -- difference of logarithms
    variance,  -- variance of one capture
    freedom,  -- degrees of freedom of that variance
    captures,  -- captures of both sides that it was estimated from
    present,  -- captures of the smaller side, with disturbed ones
    more,  -- captures to measure for each that is not disturbed
    alpha,  -- accepted probability of a false positive of this test
    smallest  -- smallest difference that counts, as a fraction
) AS (
    'within the noise' || CASE
        WHEN variance IS NULL OR variance <= 0 THEN ''
        WHEN abs(difference) <= ln(1 + smallest)
            OR coalesce(ceil(more * _captures_needed(
                difference, variance, freedom, captures, alpha, ln(1 + smallest)
            )), 101) > 100
            THEN
                '; it would take more than 100 captures per side to show a difference '
                || 'of this size'
        WHEN ceil(more * _captures_needed(
            difference, variance, freedom, captures, alpha, ln(1 + smallest)
        )) > present
            THEN '; ' || ceil(more * _captures_needed(
                difference, variance, freedom, captures, alpha, ln(1 + smallest)
            ))::BIGINT
            || ' captures per side would show a difference of this size in nine of '
            || 'ten comparisons'
        ELSE ''
    END
);

-- Why it is not decided whether there is a difference, if none that counts was found.
CREATE MACRO _wide_note(
    low,  -- lower end of the interval of the change; NULL if there is none
    smallest  -- smallest difference that counts, as a fraction
) AS (
    CASE
        WHEN low IS NULL
            THEN 'too few captures for an interval: take at least 5 per side, better 10'
        ELSE
            'a difference of ' || printf('%.3g', 100 * smallest)
            || ' % or more is not excluded'
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
    worst_step  -- greatest difference of two successive captures of the history, as a logarithm
) AS (
    'single captures of its history differ by up to ' || printf(
        '%.1f', 100 * (exp(worst_step) - 1)
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
