-- How a number is written in a sentence: with two or three significant digits.
CREATE MACRO _advice_format(value) AS (
    CASE
        WHEN abs(value) >= 100 THEN '{0:,.0f}'
        WHEN abs(value) >= 10 THEN '{0:.1f}'
        WHEN abs(value) >= 0.1 THEN '{0:.2f}'
        ELSE '{0:.2g}'
    END
);

-- A number as text for a sentence.
CREATE MACRO _advice_number(value) AS (format(_advice_format(value), value::DOUBLE));

-- A time as text for a sentence, in the unit that suits it: 12.3 us. One call with a chosen format is planned in half
-- the time of a call for each format.
CREATE MACRO _advice_time(value, unit) AS (
    format(
        CASE
            WHEN unit = 'us' AND value >= 1e7 THEN CASE WHEN value >= 1e8 THEN '{2:,.0f} s' ELSE '{2:.1f} s' END
            WHEN unit = 'us' AND value >= 1e4 THEN CASE WHEN value >= 1e5 THEN '{1:,.0f} ms' ELSE '{1:.1f} ms' END
            ELSE _advice_format(value) || ' {3}'
        END, value::DOUBLE, value / 1e3, value / 1e6, unit
    )
);

-- A share as text for a sentence: 12 %, 3.4 %; 100 % only if it is all.
CREATE MACRO _advice_percent(share_percent) AS (
    format(
        CASE
            WHEN share_percent >= 99.5 AND share_percent < 100 THEN 'over 99 %'
            WHEN share_percent >= 9.95 THEN '{:.0f} %'
            ELSE '{:.1f} %'
        END, share_percent::DOUBLE
    )
);

-- A count, or a mean of counts, as text with a noun: 1 run, 2 runs, 2.50 runs.
CREATE MACRO _advice_count(number, word) AS (
    format(
        CASE
            WHEN number = 1 THEN '{0:.0f} {1}'
            WHEN number = round(number) THEN '{0:,.0f} {1}s'
            ELSE _advice_format(number) || ' {1}s'
        END, number::DOUBLE, word
    )
);

-- A text of at most `length` characters: a longer one ends in `…`.
CREATE MACRO _shortened(words, length) AS (
    CASE WHEN length(words) > length THEN substr(words, 1, length) || '…' ELSE words END
);

-- The severity of a finding by its share of the executes: high from a fifth, which justifies a change of the model or
-- its lowering; medium from a twentieth, which a comparison of two builds detects with five captures per side.
CREATE MACRO _advice_severity(share_percent) AS (
    CASE WHEN share_percent >= 20 THEN 'high' WHEN share_percent >= 5 THEN 'medium' ELSE 'low' END
);
