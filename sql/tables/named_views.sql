-- One named view: a choice of captures and columns, saved under a name. Wherever a command, a page or Python takes a
-- selector, it also takes @NAME.
CREATE TABLE named_views (
    name VARCHAR NOT NULL,  -- its name, without @; unique
    selector VARCHAR NOT NULL,  -- the captures that it shows
    sort_by VARCHAR,  -- column or label by which tables that have it are sorted; NULL for each table's own order
    shown VARCHAR[],  -- columns to show, in this order, of tables that have them; NULL for the columns that each table shows
    saved_at TIMESTAMP NOT NULL  -- when it was saved, in UTC
);
