-- Statistics of the elements of a tensor, as a structure: min, max and mean of the finite elements, and the numbers of
-- NaN and infinite elements. A complex element counts as its two parts. All are NULL if the elements are unknown.
CREATE MACRO _tensor_statistics(
    elements  -- the elements as DOUBLE[]; NULL where unknown
) AS (
    {
        'min': list_min(_finite_elements(elements)), 'max': list_max(_finite_elements(elements)),
        'mean': list_avg(_finite_elements(elements)), 'nan_count': len(list_filter(elements, lambda x: isnan(x))),
        'inf_count': len(list_filter(elements, lambda x: isinf(x)))
    }
);

-- The finite elements of a tensor.
CREATE MACRO _finite_elements(
    elements  -- the elements as DOUBLE[]; NULL where unknown
) AS (list_filter(elements, lambda x: isfinite(x)));
