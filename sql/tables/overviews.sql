-- One series that an overview has: what a team watches, kept under the overview's
-- name. Its columns are the parameters of `trend`; it may be several series, one for
-- each set of the labels that separate them.
CREATE TABLE overview_items (
    overview VARCHAR NOT NULL,  -- name of the overview
    item_index INTEGER NOT NULL,  -- number of the item within the overview, from 1, in the order in which items were added
    what VARCHAR NOT NULL,  -- total, op, module or metric
    item VARCHAR,  -- the op, module or metric; NULL for a total
    selector VARCHAR,  -- selector of the captures; NULL: all captures
    ordered_by VARCHAR,  -- the label by which captures are ordered, or captured_at; NULL: as in `trend`
    separated_by VARCHAR  -- keys of the labels that separate series, with commas between; NULL: as in `trend`
);

-- One comparison that an overview has: two sides, compared as they are when it is shown.
CREATE TABLE overview_comparisons (
    overview VARCHAR NOT NULL,  -- name of the overview
    comparison_index INTEGER NOT NULL,  -- number of the comparison within the overview, from 1, in the order in which they were added
    base VARCHAR NOT NULL,  -- selector of the captures of one side
    new VARCHAR NOT NULL,  -- selector of those of the other
    phase VARCHAR,  -- only runs of this phase; NULL: all runs
    min_effect DOUBLE,  -- smallest change that counts, as a fraction; NULL: as in `compare_captures`
    allow_mismatch BOOLEAN NOT NULL  -- whether sides that differ in what they ran are compared, too
);

-- One comment on a change of series. Series whose captures all have the labels of
-- `series` have it, from the capture with the label `first_bad` on. Where a change is
-- accepted, the level starts anew: it is no regression any more, and later changes are
-- measured against the level after it.
CREATE TABLE change_comments (
    comment_id INTEGER NOT NULL,  -- number of the comment, from 1
    series VARCHAR NOT NULL,  -- labels of the captures, as key=value,key=value; empty: of all captures
    what VARCHAR NOT NULL,  -- total, op, module or metric; all: all of these
    item VARCHAR,  -- as in `trend`: the op, module or metric, or the method of a total; NULL: all totals
    identity VARCHAR,  -- the op in all captures, as `item` of `op_times`; NULL where it is not one op
    ordered_by VARCHAR NOT NULL,  -- the label by which captures are ordered, or captured_at
    first_bad VARCHAR NOT NULL,  -- that label of the first capture after the change; of a creep, of its last capture
    kind VARCHAR NOT NULL,  -- step or creep
    verdict VARCHAR NOT NULL,  -- accepted or note
    text VARCHAR NOT NULL,  -- what was written
    author VARCHAR,  -- who wrote it; NULL where unknown
    written_at TIMESTAMP NOT NULL  -- when it was written, in UTC
);
