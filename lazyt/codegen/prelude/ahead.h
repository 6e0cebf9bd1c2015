// Lines of memory asked for before they are needed. Nothing is read, so any address will do.

//@ lz_ahead
LZ_FN void lz_ahead(const void *place) { __builtin_prefetch(place); }

//@ lz_ahead_second
// Into the second-level cache alone: the first is full of the row at work. Zen 4, layer norm of 400 MB
// in rows of 4096, two cores and one: 13.8 and 26.2 ms; into the first 15.3 and 28.1; by the loop
// before, which only folds, 16.6 and 30.7 into either.
LZ_FN void lz_ahead_second(const void *place) { __builtin_prefetch(place, 0, 2); }
