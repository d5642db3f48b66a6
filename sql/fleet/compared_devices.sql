-- One group of captures whose devices `causes` compares with each other, or the reason why it doesn't. A group has
-- those captures of a series, on all devices, that have the same model, profiling level and clock, and, if they are
-- traces, the same kind of steps. Captures of another level, such as those with tracing, are a separate group, as
-- tracing takes time. Captures without a label device, or without times, are in no group. Groups with the most devices
-- come first.
-- Shown: series!, model!, profiling_level!, devices!#, captures!#, compared_devices!#, compared_captures#, reason!, clock,
--   steps, selector
-- Columns:
--   series: labels of the series without the device, as key=value,key=value
--   model: label model; NULL if they have none
--   profiling_level: profiling level; NULL where unknown
--   clock: cycles or time: what ticks are
--   steps: for traces, the kind of steps; NULL for other captures
--   devices: number of devices
--   captures: number of captures
--   compared_devices: number of devices that are compared: with at least 3 captures of the builds below; 0 if none are
--   compared_captures: number of captures that are compared: those of the last 20 builds that were measured on all devices of the newest build with several
--   selector: selector of these captures; NULL if none are compared, or no selector distinguishes them from others
--   reason: why devices, or some of them, aren't compared; NULL if all are
CREATE MACRO compared_devices(
    selector := NULL, over := NULL,
    "by" := 'model,device,backend',  -- keys of the labels that distinguish series, with commas between
    phase := NULL
) AS TABLE
SELECT g.series, g.kind.model AS model, g.kind.profiling_level AS profiling_level, g.kind.clock AS clock,
    g.kind.steps AS steps, g.all_devices AS devices, g.all_captures AS captures,
    coalesce(len(g.devices), 0) AS compared_devices, coalesce(len(g.captures), 0) AS compared_captures, g.selector,
    g.reason
FROM _device_groups(selector, over, "by", phase) AS g
ORDER BY g.all_devices DESC, g.series, g.place;
