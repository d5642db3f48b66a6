-- One named view: a choice of captures and columns, saved under a name. A command, page or call of Python that takes a
-- selector takes @NAME for it.
CREATE TABLE named_views (
    name VARCHAR NOT NULL,  -- its name, without @; unique
    selector VARCHAR NOT NULL,  -- the captures that it shows
    sort_by VARCHAR,  -- column or label by which tables are sorted that have it; NULL: their own order
    shown VARCHAR[],  -- columns to show of tables that have them, in this order; NULL: those that tables show
    saved_at TIMESTAMP NOT NULL  -- when it was saved, in UTC
);
