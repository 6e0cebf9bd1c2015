// lgamma and digamma. float32 computes in float64: the zeros then keep all their digits.

//@ lz_sinpi_f64
// sin(pi * r) for 0 <= r <= 1/2.
LZ_FN lz_f64 lz_sinpi_f64(lz_f64 r) {
  lz_f64 s = r > 0.25 ? 0.5 - r : r, z = s * s;
  lz_f64 a = -2.1717412523380177e-05; a = LZ_FMA_F64(a, z, 0.00046628273194539421);
  a = LZ_FMA_F64(a, z, -0.0073704298849217855); a = LZ_FMA_F64(a, z, 0.082145886580065136);
  a = LZ_FMA_F64(a, z, -0.59926452932029806); a = LZ_FMA_F64(a, z, 2.5501640398773415);
  a = LZ_FMA_F64(a, z, -5.1677127800499703); a = LZ_FMA_F64(a, z, 3.1415926535897931);
  lz_f64 b = -0.00010356753977239313; b = LZ_FMA_F64(b, z, 0.001929465758784893);
  b = LZ_FMA_F64(b, z, -0.025806885654215048); b = LZ_FMA_F64(b, z, 0.23533063019094172);
  b = LZ_FMA_F64(b, z, -1.3352627688519185); b = LZ_FMA_F64(b, z, 4.0587121264167472);
  b = LZ_FMA_F64(b, z, -4.934802200544679); b = LZ_FMA_F64(b, z, 1);
  return r > 0.25 ? b : s * a;
}

//@ lz_lgamma_near_f64
// lgamma(2 + t) for -0.75 <= t <= 0.5.
LZ_FN lz_f64 lz_lgamma_near_f64(lz_f64 t) {
  lz_f64 z = t * t, p = LZ_FMA_F64(-1.5266761969809472e-07, z, -2.4166858081751119e-08);
  lz_f64 q = LZ_FMA_F64(-9.7518816567714379e-08, z, 3.8533723774891044e-07);
  p = LZ_FMA_F64(p, z, -4.3747408885509492e-07); q = LZ_FMA_F64(q, z, 8.7206081658521319e-07);
  p = LZ_FMA_F64(p, z, -2.0611499576695388e-06); q = LZ_FMA_F64(q, z, 4.3961760860991869e-06);
  p = LZ_FMA_F64(p, z, -9.4315433282403717e-06); q = LZ_FMA_F64(q, z, 2.0504025005607386e-05);
  p = LZ_FMA_F64(p, z, -4.4927671860622115e-05); q = LZ_FMA_F64(q, z, 9.9457796055917399e-05);
  p = LZ_FMA_F64(p, z, -0.00022315461393640186); q = LZ_FMA_F64(q, z, 0.0005096695101266714);
  p = LZ_FMA_F64(p, z, -0.0011927539197092139); q = LZ_FMA_F64(q, z, 0.0028905103311530726);
  p = LZ_FMA_F64(p, z, -0.0073855510284537226); q = LZ_FMA_F64(q, z, 0.020580808427778992);
  p = LZ_FMA_F64(p, z, -0.06735230105320042); q = LZ_FMA_F64(q, z, 0.32246703342411326);
  p = LZ_FMA_F64(p, z, 0.42278433509846713); p = LZ_FMA_F64(q, t, p);
  return t * p;
}

//@ lz_lgamma_far_f64
// Stirling's series, for x >= 8; log is that of x.
LZ_FN lz_f64 lz_lgamma_far_f64(lz_f64 x, lz_f64 log) {
  lz_f64 v = 1 / x, z = v * v;
  lz_f64 p = -0.029550653594771242;
  p = LZ_FMA_F64(p, z, 0.00641025641025641); p = LZ_FMA_F64(p, z, -0.0019175269175269176);
  p = LZ_FMA_F64(p, z, 0.00084175084175084171); p = LZ_FMA_F64(p, z, -0.00059523809523809529);
  p = LZ_FMA_F64(p, z, 0.00079365079365079365); p = LZ_FMA_F64(p, z, -0.0027777777777777779);
  p = LZ_FMA_F64(p, z, 0.083333333333333329);
  lz_f64 l = log - 1;
  return x * l + (0.91893853320467278 - 0.5 * (l + 1) + p * v);
}

//@ lz_lgamma_step_f64
// One step of the recurrence, where x is above 2.5.
LZ_FN lz_f64 lz_lgamma_step_f64(lz_f64 x, lz_f64 *product) {
  lz_f64 less = x > 2.5 ? x - 1 : x;
  *product *= x > 2.5 ? less : 1;
  return less;
}

//@ lz_lgamma_positive_f64
// lgamma(x) for x > 0: Stirling's series from 8, below the recurrence into [1.25, 2.5]. One
// logarithm serves all, and nothing branches.
LZ_FN lz_f64 lz_lgamma_positive_f64(lz_f64 x) {
  lz_f64 product = 1, t = lz_lgamma_step_f64(x, &product);
  t = lz_lgamma_step_f64(t, &product); t = lz_lgamma_step_f64(t, &product);
  t = lz_lgamma_step_f64(t, &product); t = lz_lgamma_step_f64(t, &product);
  t = lz_lgamma_step_f64(t, &product);
  lz_f64 small = x < 0.5 ? x * (1 + x) : x, from = x < 0.5 ? x : x - 1;
  lz_f64 log = lz_log_f64(x >= 8 ? x : x < 1.25 ? small : product);
  lz_f64 near = lz_lgamma_near_f64(x < 1.25 ? from : t - 2) + (x < 1.25 ? -log : log);
  lz_f64 far = lz_lgamma_far_f64(x, log);
  return x >= 8 ? (x < LZ_INF_F64 ? far : x) : near;
}

//@ lz_lgamma_turned_f64
LZ_FN lz_f64 lz_lgamma_turned_f64(lz_f64 x) { return lz_lgamma_positive_f64(x > 0 ? x : 1 - x); }

//@ lz_lgamma_is_positive_f64
LZ_FN int lz_lgamma_is_positive_f64(lz_f64 x) { return x > 0; }

//@ lz_lgamma_below_f64
// By the reflection formula, given lgamma(1 - x).
LZ_FN lz_f64 lz_lgamma_below_f64(lz_f64 x, lz_f64 other) {
  lz_f64 r = lz_abs_f64(x - lz_round_f64(x)), s = 1.1447298858494002 - lz_log_f64(lz_sinpi_f64(r));
  lz_f64 y = (r == 0) | (x == -LZ_INF_F64) ? LZ_INF_F64 : s - other;
  return x == x ? y : x;
}

//@ lz_lgamma_f64 ulp=4
// log |gamma(x)|, infinity at the poles 0, -1, -2 ... The bound is for x > 0; below, beside the
// zeros, the error is a few units of the largest term of the reflection formula.
lz_paths_f64(lz_lgamma_f64, lz_lgamma_is_positive_f64, lz_lgamma_turned_f64, lz_lgamma_below_f64)

//@ lz_lgamma_f32 ulp=1
LZ_FN lz_f32 lz_lgamma_f32(lz_f32 x) { return (lz_f32)lz_lgamma_f64(x); }

//@ lz_digamma_near_f64
// digamma(x) for 1 <= x <= 2, as (x - root) * P(x - 1.5); the root in two parts.
LZ_FN lz_f64 lz_digamma_near_f64(lz_f64 x) {
  lz_f64 t = x - 1.5;
  lz_f64 p = -0.00018378837778140126; p = LZ_FMA_F64(p, t, 0.00025991150683204382);
  p = LZ_FMA_F64(p, t, -0.00013749675973670877); p = LZ_FMA_F64(p, t, 0.00022695026854331415);
  p = LZ_FMA_F64(p, t, -0.00049006184517774243); p = LZ_FMA_F64(p, t, 0.00072347664030582694);
  p = LZ_FMA_F64(p, t, -0.0010351642347701871); p = LZ_FMA_F64(p, t, 0.0015565877199181194);
  p = LZ_FMA_F64(p, t, -0.0023457445227084289); p = LZ_FMA_F64(p, t, 0.0035190142071885571);
  p = LZ_FMA_F64(p, t, -0.0052799068175120442); p = LZ_FMA_F64(p, t, 0.0079269437903540432);
  p = LZ_FMA_F64(p, t, -0.01190822243062885); p = LZ_FMA_F64(p, t, 0.017907252496562092);
  p = LZ_FMA_F64(p, t, -0.026975796553072934); p = LZ_FMA_F64(p, t, 0.040760833810234751);
  p = LZ_FMA_F64(p, t, -0.061922133278180552); p = LZ_FMA_F64(p, t, 0.094988724454983645);
  p = LZ_FMA_F64(p, t, -0.14840492305384978); p = LZ_FMA_F64(p, t, 0.2405424842407739);
  p = LZ_FMA_F64(p, t, -0.42362742128146069); p = LZ_FMA_F64(p, t, 0.95105587603183295);
  return ((x - 1.4616321449683622) - 9.549995429965697e-17) * p;
}

//@ lz_digamma_positive_f64
// digamma(x) for x > 0: asymptotic series, or the recurrence into [1, 2].
LZ_FN lz_f64 lz_digamma_positive_f64(lz_f64 x) {
  if (x >= 10) {
    lz_f64 v = 1 / x, z = v * v;
    lz_f64 p = 0.083333333333333329;
    p = LZ_FMA_F64(p, z, -0.021092796092796094); p = LZ_FMA_F64(p, z, 0.007575757575757576);
    p = LZ_FMA_F64(p, z, -0.0041666666666666666); p = LZ_FMA_F64(p, z, 0.003968253968253968);
    p = LZ_FMA_F64(p, z, -0.0083333333333333332); p = LZ_FMA_F64(p, z, 0.083333333333333329);
    return lz_log_f64(x) - (0.5 * v + z * p);
  }
  if (x < 1) return lz_digamma_near_f64(x + 1) - 1 / x;
  lz_f64 sum = 0;
  for (; x > 2; sum += 1 / x) x -= 1;
  return lz_digamma_near_f64(x) + sum;
}

//@ lz_digamma_f64 ulp=4
// As torch.digamma: at 0 infinite with the sign opposite to zero's, NaN at -1, -2 ... The bound is
// for x > 0; below, beside the zeros, the error is a few units of the reflection formula's terms.
LZ_FN lz_f64 lz_digamma_f64(lz_f64 x) {
  if (x > 0) return lz_digamma_positive_f64(x);
  if (x == 0) return lz_copysign_f64(LZ_INF_F64, -x);
  lz_f64 r = x - lz_round_f64(x), a = lz_abs_f64(r);
  if (r == 0 || !(x > -LZ_INF_F64)) return LZ_NAN_F64;
  lz_f64 cotangent = lz_copysign_f64(lz_sinpi_f64(0.5 - a) / lz_sinpi_f64(a), r);
  return lz_digamma_positive_f64(1 - x) - 3.1415926535897931 * cotangent;
}

//@ lz_digamma_f32 ulp=1
LZ_FN lz_f32 lz_digamma_f32(lz_f32 x) { return (lz_f32)lz_digamma_f64(x); }
