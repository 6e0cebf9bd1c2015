// Lines of memory asked for before they are needed. Nothing is read, so any address will do.

//@ lz_ahead
LZ_FN void lz_ahead(const void *place) { __builtin_prefetch(place); }
