void lz_kernel(char *b0_, char *b1_, char *b2_, char *ws, int threads) {
    const lz_f32 *restrict x0 = (const lz_f32 *)b0_;
    const lz_f32 *restrict x1 = (const lz_f32 *)b1_;
    lz_f32 *restrict y2 = (lz_f32 *)b2_;
    {
        lz_f32 *restrict g_a = (lz_f32 *)ws;
        lz_i32 *restrict g_steps = (lz_i32 *)(ws + 896);
        char *g_mine = ws + 1024 + (lz_i64)lz_worker() * 4032;
        lz_f32 *restrict g_x = (lz_f32 *)g_mine;
        lz_f32 *restrict g_c = (lz_f32 *)(g_mine + 3264);
        for (lz_i64 g_k = 0; g_k < 816; g_k++) {
            g_x[g_k] = 0;
        }
#pragma omp for schedule(static) nowait
        for (lz_i64 g_u = 0; g_u < 2; g_u++) {
            const lz_i64 g_row = g_u % 2 * 4;
            const lz_i64 g_row1 = g_row + 4 < 8 ? g_row + 4 : 8;
            lz_lay_f32_4x4(27, x1 + (g_row) * 27 + (0), 27, g_row1 - g_row, g_a + g_u * 108);
        }
#pragma omp single nowait
        {
            for (lz_i64 k0 = 0; k0 < 3; k0++) {
                for (lz_i64 k1 = 0; k1 < 3; k1++) {
                    for (lz_i64 k2 = 0; k2 < 3; k2++) {
                        g_steps[((k0) * 3 + k1) * 3 + k2] = k0 * 272 + k1 / 2 * 11 + (k1 % 2) * 134 + k2 / 2 * 1 + (k2 % 2) * 67;
                    }
                }
            }
        }
#pragma omp barrier
#pragma omp for schedule(dynamic, 1)
        for (lz_i64 g_t = 0; g_t < 4; g_t++) {
            const lz_i64 g_bo = g_t / 2;
            const lz_i64 g_b = g_bo / 2;
            const lz_i64 i0 = (g_bo % 2);
            const lz_i64 g_p0 = g_t / 1 % 2 * 5;
            const lz_i64 g_p1 = g_p0 + 5 < 10 ? g_p0 + 5 : 10;
            const lz_i64 g_i0 = g_t % 1 * 2;
            const lz_i64 g_i1 = g_i0 + 2 < 2 ? g_i0 + 2 : 2;
            {
                for (lz_i64 k0 = 0; k0 < 3; k0++) {
                    for (lz_i64 g_q0 = g_p0; g_q0 < g_p1 + 1; g_q0++) {
                        if ((g_q0 * 2) >= 1) {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 1; g_q1++) {
                                g_x[k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
#pragma omp simd
                            for (lz_i64 g_q1 = 1; g_q1 < 11; g_q1++) {
                                g_x[k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = x0[((((g_q0 * 42) + (g_q1 * 2)) + (i0 * 1260)) + (k0 * 420)) - 22];
                            }
#pragma omp simd
                            for (lz_i64 g_q1 = 11; g_q1 < 12; g_q1++) {
                                g_x[k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
                        }
                        else {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 12; g_q1++) {
                                g_x[k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
                        }
                    }
                }
            }
            {
                for (lz_i64 k0 = 0; k0 < 3; k0++) {
                    for (lz_i64 g_q0 = g_p0; g_q0 < g_p1 + 1; g_q0++) {
                        if ((g_q0 * 2) >= 1) {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 11; g_q1++) {
                                g_x[67 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = x0[((((g_q0 * 42) + (g_q1 * 2)) + (i0 * 1260)) + (k0 * 420)) - 21];
                            }
                        }
                        else {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 11; g_q1++) {
                                g_x[67 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
                        }
                    }
                }
            }
            {
                for (lz_i64 k0 = 0; k0 < 3; k0++) {
                    for (lz_i64 g_q0 = g_p0; g_q0 < g_p1 + 0; g_q0++) {
                        {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 1; g_q1++) {
                                g_x[134 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
#pragma omp simd
                            for (lz_i64 g_q1 = 1; g_q1 < 11; g_q1++) {
                                g_x[134 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = x0[((((g_q0 * 42) + (g_q1 * 2)) + (i0 * 1260)) + (k0 * 420)) - 1];
                            }
#pragma omp simd
                            for (lz_i64 g_q1 = 11; g_q1 < 12; g_q1++) {
                                g_x[134 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = 0.0f;
                            }
                        }
                    }
                }
            }
            {
                for (lz_i64 k0 = 0; k0 < 3; k0++) {
                    for (lz_i64 g_q0 = g_p0; g_q0 < g_p1 + 0; g_q0++) {
                        {
#pragma omp simd
                            for (lz_i64 g_q1 = 0; g_q1 < 11; g_q1++) {
                                g_x[201 + k0 * 272 + (g_q0 - g_p0) * 11 + g_q1] = x0[(((g_q0 * 42) + (g_q1 * 2)) + (i0 * 1260)) + (k0 * 420)];
                            }
                        }
                    }
                }
            }
            for (lz_i64 g_s0 = g_p0; g_s0 < g_p1; g_s0 += 2) {
                const lz_i64 g_s1 = g_s0 + 2 < g_p1 ? g_s0 + 2 : g_p1;
                for (lz_i64 g_j0 = g_i0; g_j0 < g_i1; g_j0 += 2) {
                    const lz_i64 g_j1 = g_j0 + 2 < g_i1 ? g_j0 + 2 : g_i1;
                    for (lz_i64 g_k0 = 0; g_k0 < 27; g_k0 += 27) {
                        const lz_i64 g_k1 = g_k0 + 27 < 27 ? g_k0 + 27 : 27;
                        for (lz_i64 g_at = 0; g_at < (g_s1 - g_s0) * 11; g_at += 24) {
                            for (lz_i64 g_i = g_j0; g_i < g_j1; g_i++) {
                                lz_slide_f32_4x24v32(g_k1 - g_k0,
                                    g_a + ((g_b * 2 + g_i) * 27 + g_k0) * 4,
                                    g_x + (g_s0 - g_p0) * 11 + g_at, 745, g_steps + g_k0,
                                    g_c + (g_i - g_j0) * 96 + g_at, 24, g_k0 == 0);
                            }
                        }
                    }
                    const lz_i64 g_m0 = g_j0 * 4;
                    const lz_i64 g_m1 = g_j1 * 4 < 8 ? g_j1 * 4 : 8;
                    for (lz_i64 g_row = g_m0; g_row < g_m1; g_row++) {
                        const lz_i64 i1 = g_row;
                        for (lz_i64 i2 = g_s0; i2 < g_s1; i2++) {
#pragma omp simd
                            for (lz_i64 i3 = 0; i3 < 11; i3++) {
                                const lz_f32 g_value = g_c[(g_row - g_m0) * 24 + (i2 - g_s0) * 11 + i3];
                                const lz_f32 acc = g_value;
                                y2[(((i0 * 880) + (i1 * 110)) + (i2 * 11)) + i3] = acc;
                            }
                        }
                    }
                }
            }
        }
    }
}
