-- A text by which labels are sorted as numbers and versions. Numbers are padded to 20 digits. The end of a label sorts
-- after a hyphen and before all other characters.
CREATE MACRO _version_key(label) AS (
    CASE
        -- A shortcut for the most frequent case.
        WHEN regexp_full_match(label, '\d{1,20}') THEN lpad(label, 20, '0') || '!'
        ELSE replace(array_to_string(list_transform(
            regexp_extract_all(label, '\d+|\D+'),
            lambda part: CASE
                WHEN left(part, 1) BETWEEN '0' AND '9' THEN lpad(part, greatest(20, length(part))::INTEGER, '0')
                ELSE part
            END
        ), ''), '-', ' ') || '!'
    END
);
