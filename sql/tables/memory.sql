-- One allocator that a run tracks.
CREATE TABLE allocators (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    allocator_id BIGINT NOT NULL,  -- number within the run: of an ETDump from 1, of a prof_result as the file has it
    name VARCHAR  -- the allocator's name; NULL where the file has none
);

-- One allocation.
CREATE TABLE allocations (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0; of a prof_result behind all entries
    allocator_id BIGINT NOT NULL,  -- which of the run's allocators
    size_bytes BIGINT NOT NULL  -- what was requested
);
