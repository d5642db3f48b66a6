-- One capture with the labels that the other models group by.
select c.capture_id, c.name, c.captured_at, c.labels['model'] as model, c.labels['device'] as device,
    c.labels['build'] as build
from {{ source('etq', 'labelled_captures') }} as c
where c.labels['build'] is not null
