-- What the elements of a tensor are like, as a structure of min, max and mean of
-- those that are finite, and the numbers of NaN and infinite ones. A complex
-- element counts as its two parts. Everything is NULL where the elements are.
CREATE MACRO _tensor_statistics(
    elements  -- the elements as DOUBLE[], NULL where they are unknown
) AS (
    {
        'min': list_min(_finite_elements(elements)),
        'max': list_max(_finite_elements(elements)),
        'mean': list_avg(_finite_elements(elements)),
        'nan_count': len(list_filter(elements, lambda x: isnan(x))),
        'inf_count': len(list_filter(elements, lambda x: isinf(x)))
    }
);

-- The elements of a tensor that are finite.
CREATE MACRO _finite_elements(
    elements  -- the elements as DOUBLE[], NULL where they are unknown
) AS (
    list_filter(elements, lambda x: isfinite(x))
);
