-- One allocator that a run tracks.
CREATE TABLE allocators (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    allocator_id INTEGER NOT NULL,  -- number within the run, from 1
    name VARCHAR  -- the allocator's name; NULL where the file has none
);

-- One allocation.
CREATE TABLE allocations (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0
    allocator_id INTEGER NOT NULL,  -- which of the run's allocators, from 1
    size_bytes BIGINT NOT NULL  -- what was asked for
);
