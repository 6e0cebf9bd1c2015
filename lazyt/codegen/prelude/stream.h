// Stores past the caches, for arrays that fill these: plain stores read a line first.

//@ lz_stream_@S [floats ints b8]
// count elements, a multiple of 64 bytes; where ``to`` begins in the middle of a vector, as usual. In
// whole lines a loop full of arithmetic takes 3 % less time than in halves.
LZ_FN void lz_stream_@S(lz_i64 count, const lz_@S *from, lz_@S *to)
{
#if defined(__AVX512F__)
  typedef float whole __attribute__((vector_size(64), may_alias, aligned(4)));
  if (((__SIZE_TYPE__)to & 63) == 0) {
    for (lz_i64 n = 0; n < count; n += 64 / (lz_i64)sizeof(lz_@S))
#ifdef __clang__
      __builtin_nontemporal_store(*(const whole *)(from + n), (whole *)(to + n));
#else
      __builtin_ia32_movntps512((float *)(to + n), *(const whole *)(from + n));
#endif
    return;
  }
#endif
#if defined(__AVX__)
  typedef float lanes __attribute__((vector_size(32), may_alias, aligned(4)));
  if (((__SIZE_TYPE__)to & 31) == 0) {
    for (lz_i64 n = 0; n < count; n += 32 / (lz_i64)sizeof(lz_@S))
#ifdef __clang__
      __builtin_nontemporal_store(*(const lanes *)(from + n), (lanes *)(to + n));
#else
      __builtin_ia32_movntps256((float *)(to + n), *(const lanes *)(from + n));
#endif
    return;
  }
#endif
  LZ_COPY(to, from, count * (lz_i64)sizeof(lz_@S));
}

//@ lz_stream_end
// Other threads see what lz_stream stored only after this.
LZ_FN void lz_stream_end(void)
{
#if defined(__AVX__)
  __builtin_ia32_sfence();
#endif
}
