-- The part of a delegate's event, by its family: copies (and type conversions), layout (changes of dimensions), ops.
-- Names are XNNPACK's (`Transpose (ND, X32)`, `Copy (NC, X32)`, `Convert ...`, `Static Reshape (NC)`); other backends
-- use the same words if they have such events.
CREATE MACRO _delegate_part(family) AS (
    CASE
        WHEN regexp_matches(family, '(?i)transpose|permute|reshape|layout') THEN 'layout'
        WHEN regexp_matches(family, '(?i)copy|convert|quantize') THEN 'copies'
        ELSE 'ops'
    END
);
