-- One comment on a change of series. It is on the series whose captures all have the labels of `series`, from the
-- capture with the label `first_bad` on. Where a change is accepted, the level starts anew: the change is no longer a
-- regression, and later changes are measured against the level after it.
CREATE TABLE change_comments (
    comment_id INTEGER NOT NULL,  -- number of the comment, from 1
    series VARCHAR NOT NULL,  -- labels of the captures, as key=value,key=value; empty: of all captures
    what VARCHAR NOT NULL,  -- total, op, module or metric; all: all of these
    item VARCHAR,  -- as in `trend`: the op, module or metric, or the method of a total; NULL: all totals
    identity VARCHAR,  -- the op in all captures, as `item` of `op_times`; NULL where it is not one op
    ordered_by VARCHAR NOT NULL,  -- the label by which captures are ordered, or captured_at
    first_bad VARCHAR NOT NULL,  -- value of that label in the first capture after the change; for a creep, in its last capture
    kind VARCHAR NOT NULL,  -- step or creep
    verdict VARCHAR NOT NULL,  -- accepted or note
    text VARCHAR NOT NULL,  -- what was written
    author VARCHAR,  -- who wrote it; NULL where unknown
    written_at TIMESTAMP NOT NULL  -- when it was written, in UTC
);
