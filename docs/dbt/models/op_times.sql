-- The time of an op in one execute, of the captures of a build on a device.
select b.model, b.device, b.build, o.op, o.method, count(*) as captures, median(o.per_execute) as per_execute, o.unit
from {{ ref('builds') }} as b
join {{ source('etq', 'all_op_totals') }} as o using (capture_id)
where o.per_execute is not null
group by all
