-- One allocator that a run tracks.
CREATE TABLE allocators (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    allocator_id BIGINT NOT NULL,  -- number of the allocator within the run: for an ETDump from 1, for a prof_result as in the file
    name VARCHAR  -- name of the allocator; NULL if the file has none
);

-- One allocation.
CREATE TABLE allocations (
    capture_id INTEGER NOT NULL,  -- the capture
    run_index INTEGER NOT NULL,  -- the run
    event_index INTEGER NOT NULL,  -- position in the run's list of events of every kind, from 0; for a prof_result after all entries
    allocator_id BIGINT NOT NULL,  -- the run's allocator
    size_bytes BIGINT NOT NULL  -- requested size in bytes
);
