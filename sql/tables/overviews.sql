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
