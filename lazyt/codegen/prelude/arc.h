// Inverse trigonometric functions and hypot.

//@ lz_atan_poly_f32
// atan(t) for |t| <= tan(pi/8).
LZ_FN lz_f32 lz_atan_poly_f32(lz_f32 t) {
  lz_f32 z = t * t;
  lz_f32 p = -0.0609127022f; p = LZ_FMA_F32(p, z, 0.105996288f);
  p = LZ_FMA_F32(p, z, -0.142444402f); p = LZ_FMA_F32(p, z, 0.199985281f);
  p = LZ_FMA_F32(p, z, -0.333333164f);
  return LZ_FMA_F32(t * z, p, t);
}

//@ lz_atan_poly_f64
// atan(t) for |t| <= tan(pi/8).
LZ_FN lz_f64 lz_atan_poly_f64(lz_f64 t) {
  lz_f64 z = t * t;
  lz_f64 w = z * z, p = LZ_FMA_F64(-0.017987050669847699, w, -0.050425914504549203);
  lz_f64 q = LZ_FMA_F64(0.038142390284152096, w, 0.058486767529972013);
  p = LZ_FMA_F64(p, w, -0.066632217595641169); q = LZ_FMA_F64(q, w, 0.076920715860693004);
  p = LZ_FMA_F64(p, w, -0.090908984685222155); q = LZ_FMA_F64(q, w, 0.1111111081141789);
  p = LZ_FMA_F64(p, w, -0.14285714280844777); q = LZ_FMA_F64(q, w, 0.19999999999961338);
  p = LZ_FMA_F64(p, w, -0.33333333333333232); p = LZ_FMA_F64(q, z, p);
  return LZ_FMA_F64(t * z, p, t);
}

//@ lz_atan_@S [floats] ulp=2.5
// atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 - atan(1 / a), with one division for all.
LZ_FN lz_@S lz_atan_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x);
  int far = a > (lz_@S)2.414213562373095, middle = a > (lz_@S)0.41421356237309505;
  lz_@S top = far ? -1 : middle ? a - 1 : a, bottom = far ? a : middle ? a + 1 : 1;
  lz_@S high = far ? @{1.57079637f|1.5707963267948966} : @{0.785398185f|0.78539816339744828};
  lz_@S low = far ? @{-4.371139e-8f|6.123233995736766e-17}
      : @{-2.1855695e-8f|3.061616997868383e-17};
  lz_@S p = lz_atan_poly_@S(top / bottom);
  return lz_with_sign_@S(middle ? high + (p + low) : p, x);
}

//@ lz_atan2_@S [floats] ulp=2.5
// The angle of the smaller part over the larger, reflected into place: k * pi/4 + or - it.
LZ_FN lz_@S lz_atan2_@S(lz_@S y, lz_@S x) {
  lz_@S ax = lz_abs_@S(x), ay = lz_abs_@S(y), big = @{1e38f|1e307};
  lz_@S large = ax > ay ? ax : ay, small = ax > ay ? ay : ax;
  lz_@S scale = large > big ? (lz_@S)0.25 : 1;
  large *= scale;
  small *= scale;
  int same = small == large, middle = small > (lz_@S)0.41421356237309505 * large;
  lz_@S t = (middle ? small - large : small) / (middle ? small + large : large);
  lz_@S p = lz_atan_poly_@S(same ? 0 : t), k = (same || middle) && large > 0 ? 1 : 0;
  p = ay > ax ? -p : p;
  k = ay > ax ? 2 - k : k;
  int back = lz_signbit_@S(x);
  p = back ? -p : p;
  k = back ? 4 - k : k;
  lz_@S low = @{1.56958239e-7f|3.061616997868383e-17};
  lz_@S r = k * @{0.785398006f|0.78539816339744828} + (k * low + p);
  return x == x && y == y ? lz_copysign_@S(r, y) : LZ_NAN_@N;
}

//@ lz_asin_poly_f32
// asin(s) for 0 <= s <= 1/2 and z = s^2.
LZ_FN lz_f32 lz_asin_poly_f32(lz_f32 s, lz_f32 z) {
  lz_f32 p = 0.0421586744f; p = LZ_FMA_F32(p, z, 0.0241878033f);
  p = LZ_FMA_F32(p, z, 0.0454675928f); p = LZ_FMA_F32(p, z, 0.0749533325f);
  p = LZ_FMA_F32(p, z, 0.166667506f);
  return LZ_FMA_F32(s * z, p, s);
}

//@ lz_asin_poly_f64
// asin(s) for 0 <= s <= 1/2 and z = s^2.
LZ_FN lz_f64 lz_asin_poly_f64(lz_f64 s, lz_f64 z) {
  lz_f64 w = z * z, p = LZ_FMA_F64(-0.016064638200429218, w, 0.0065734171848336291);
  lz_f64 q = LZ_FMA_F64(0.031812442275678955, w, 0.019416167567719647);
  p = LZ_FMA_F64(p, w, 0.013887256482403824); q = LZ_FMA_F64(q, w, 0.012157461681479872);
  p = LZ_FMA_F64(p, w, 0.022371776067033146); q = LZ_FMA_F64(q, w, 0.017359470837752262);
  p = LZ_FMA_F64(p, w, 0.044642856854737123); q = LZ_FMA_F64(q, w, 0.030381958245678953);
  p = LZ_FMA_F64(p, w, 0.16666666666665647); q = LZ_FMA_F64(q, w, 0.075000000002961309);
  p = LZ_FMA_F64(q, z, p);
  return LZ_FMA_F64(s * z, p, s);
}

//@ lz_asin_@S [floats] ulp=3
// Above 1/2: pi/2 - 2 * asin(sqrt((1 - a) / 2)).
LZ_FN lz_@S lz_asin_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x), half = (lz_@S)0.5;
  lz_@S z = a > half ? (1 - a) * half : a * a;
  lz_@S p = lz_asin_poly_@S(a > half ? LZ_SQRT_@N(z) : a, z);
  lz_@S far = @{1.57079637f|1.5707963267948966}
      - (2 * p - @{-4.371139e-8f|6.123233995736766e-17});
  return lz_with_sign_@S(a > half ? far : p, x);
}

//@ lz_acos_@S [floats] ulp=3
LZ_FN lz_@S lz_acos_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x), half = (lz_@S)0.5;
  lz_@S z = a > half ? (1 - a) * half : a * a;
  lz_@S p = lz_asin_poly_@S(a > half ? LZ_SQRT_@N(z) : a, z);
  lz_@S low = @{-4.371139e-8f|6.123233995736766e-17}, right = @{1.57079637f|1.5707963267948966};
  lz_@S back = 2 * right - (2 * p - 2 * low);
  lz_@S near = right - (lz_with_sign_@S(p, x) - low);
  return a > half ? (x > 0 ? 2 * p : back) : near;
}

//@ lz_hypot_@S [floats] ulp=1.5
// Scaled by a power of two where squares would overflow or vanish; infinity wins over NaN.
LZ_FN lz_@S lz_hypot_@S(lz_@S x, lz_@S y) {
  lz_@S a = lz_abs_@S(x), b = lz_abs_@S(y), m = a > b ? a : b;
  lz_@S down = @{1.3552527156068805e-20f|2.4099198651028841e-181};
  lz_@S up = @{7.737125245533627e25f|4.149515568880993e180};
  lz_@S scale = m > @{1e18f|1e150} ? down : m < @{1e-15f|1e-150} ? up : 1;
  lz_@S back = m > @{1e18f|1e150} ? @{7.378697629483821e19f|4.149515568880993e180}
      : m < @{1e-15f|1e-150} ? @{1.2924697071141057e-26f|2.4099198651028841e-181} : 1;
  lz_@S r = LZ_SQRT_@N(a * scale * (a * scale) + b * scale * (b * scale)) * back;
  return a == LZ_INF_@N || b == LZ_INF_@N ? LZ_INF_@N : r;
}
