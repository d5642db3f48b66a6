-- The time of an execute of a build on a device, and its change from the build before, in percent.
with measured as (
    select b.model, b.device, b.build, h.part as method, min(b.captured_at) as first_captured, count(*) as captures,
        median(h.value) as execute, h.unit
    from {{ ref('builds') }} as b
    join {{ source('etq', 'all_headline') }} as h using (capture_id)
    where h.number = 'execute'
    group by all
)
select m.*, 100 * (m.execute / lag(m.execute) over series - 1) as change_percent
from measured as m
window series as (partition by m.model, m.device, m.method, m.unit order by m.first_captured, m.build)
