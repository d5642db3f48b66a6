-- One comment on a change of series. It is about the series whose captures all have the labels of `series`, and about
-- the captures from `first_bad` on. If it accepts a change, the level starts anew: the change is no longer a
-- regression, and later changes are measured against the level after it.
CREATE TABLE change_comments (
    comment_id INTEGER NOT NULL,  -- number of the comment, from 1
    series VARCHAR NOT NULL,  -- labels of the captures, as key=value,key=value; empty: of all captures
    what VARCHAR NOT NULL,  -- total, op, module or metric; all stands for all of these
    item VARCHAR,  -- the op, module or metric, or the method of a total, as in `trend`; NULL for all totals
    identity VARCHAR,  -- identity of the op in all captures, as `item` of `op_times`; NULL if the comment is not about one op
    ordered_by VARCHAR NOT NULL,  -- the label by which captures are ordered, or captured_at
    first_bad VARCHAR NOT NULL,  -- value of the label `ordered_by` in the first capture after the change; for a creep, in the creep's last capture
    kind VARCHAR NOT NULL,  -- step or creep
    verdict VARCHAR NOT NULL,  -- accepted or note
    text VARCHAR NOT NULL,  -- text of the comment
    author VARCHAR,  -- who wrote it; NULL where unknown
    written_at TIMESTAMP NOT NULL  -- when it was written, in UTC
);
