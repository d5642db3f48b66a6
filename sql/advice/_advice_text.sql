-- A number as text for a sentence, with two or three significant digits.
CREATE MACRO _advice_number(
    value  -- a number
) AS (
    CASE
        WHEN abs(value) >= 100 THEN format('{:,.0f}', value::DOUBLE)
        WHEN abs(value) >= 10 THEN format('{:.1f}', value::DOUBLE)
        WHEN abs(value) >= 0.1 THEN format('{:.2f}', value::DOUBLE)
        ELSE format('{:.2g}', value::DOUBLE)
    END
);

-- A time as text for a sentence: 12.3 us.
CREATE MACRO _advice_time(
    value,  -- a number
    unit  -- its unit
) AS (
    _advice_number(value) || ' ' || unit
);

-- A share as text for a sentence: 12 %, 3.4 %; 100 % only if it is all.
CREATE MACRO _advice_percent(
    share_percent  -- a share in percent
) AS (
    CASE
        WHEN share_percent >= 99.5 AND share_percent < 100 THEN 'over 99 %'
        WHEN share_percent >= 9.95 THEN format('{:.0f} %', share_percent::DOUBLE)
        ELSE format('{:.1f} %', share_percent::DOUBLE)
    END
);

-- A count as text, which may be an average: 1 run, 2 runs, 2.50 runs.
CREATE MACRO _advice_count(
    number,  -- the number
    word  -- the noun in the singular
) AS (
    CASE
        WHEN number = round(number) THEN format('{:,.0f}', number::DOUBLE)
        ELSE _advice_number(number)
    END || ' ' || word || CASE WHEN number = 1 THEN '' ELSE 's' END
);

-- The severity of a finding by its share of the executes: high from a fifth, which
-- justifies a change of the model or its lowering; medium from a twentieth, which a
-- comparison of two builds detects with five captures per side.
CREATE MACRO _advice_severity(
    share_percent  -- share of the executes in percent
) AS (
    CASE
        WHEN share_percent >= 20 THEN 'high'
        WHEN share_percent >= 5 THEN 'medium'
        ELSE 'low'
    END
);

-- A sentence for times most of which is a single one that takes a tenth of the whole, as
-- the first use of a device, which initializes it, or a compilation; '' for others.
CREATE MACRO _advice_warm_up(
    word,  -- the noun for one of the times
    longest,  -- the longest of them
    total,  -- their sum
    share_percent  -- share of the sum in the whole, in percent
) AS (
    CASE
        WHEN longest > 0.5 * total AND share_percent * longest / total >= 10
            THEN ' Most of it is one ' || word || ': if that is initialization or'
            || ' compilation, record steps after a warm-up.'
        ELSE ''
    END
);
