"""FlatBuffers: tables, vectors and unions of a buffer."""
