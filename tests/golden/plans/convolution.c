void lz_kernel(char *b0_, char *b1_, char *b2_, char *ws, int threads) {
    const lz_f32 *restrict x0 = (const lz_f32 *)b0_;
    const lz_f32 *restrict x1 = (const lz_f32 *)b1_;
    lz_f32 *restrict y2 = (lz_f32 *)b2_;
    const lz_i64 g_b = 0;
    lz_f32 *restrict g_rows = (lz_f32 *)(ws);
    for (lz_i64 g_col = 0; g_col < 8; g_col++) {
        for (lz_i64 g_k = 0; g_k < 27; g_k++) {
            {
                const lz_i64 k0 = (g_k) / 9;
                const lz_i64 k1 = ((g_k) / 3) % 3;
                const lz_i64 k2 = ((g_k)) % 3;
                const lz_i64 i1 = (g_col);
                g_rows[g_k * 8 + g_col] = x1[(((i1 * 27) + (k0 * 9)) + (k1 * 3)) + k2];
            }
        }
    }
    for (lz_i64 g_row0 = 0; g_row0 < 220; g_row0 += 16) {
        for (lz_i64 g_col0 = 0; g_col0 < 8; g_col0 += 8) {
            const lz_i64 g_row1 = g_row0 + 16 < 220 ? g_row0 + 16 : 220;
            const lz_i64 g_col1 = g_col0 + 8 < 8 ? g_col0 + 8 : 8;
            _Alignas(64) lz_f32 g_acc[128];
            for (lz_i64 g_i = 0; g_i < (g_row1 - g_row0) * 8; g_i++) {
                g_acc[g_i] = 0;
            }
            for (lz_i64 g_k = 0; g_k < 24; g_k += 4) {
                lz_i64 g_row = g_row0;
                for (; g_row + 1 < g_row1; g_row += 2) {
                    lz_f32 g_a0_0;
                    {
                        const lz_i64 i0 = ((g_row + 0)) / 110;
                        const lz_i64 i2 = (((g_row + 0)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 0))) % 11;
                        const lz_i64 k0 = ((g_k + 0)) / 9;
                        const lz_i64 k1 = (((g_k + 0)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 0))) % 3;
                        g_a0_0 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a0_1;
                    {
                        const lz_i64 i0 = ((g_row + 0)) / 110;
                        const lz_i64 i2 = (((g_row + 0)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 0))) % 11;
                        const lz_i64 k0 = ((g_k + 1)) / 9;
                        const lz_i64 k1 = (((g_k + 1)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 1))) % 3;
                        g_a0_1 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a0_2;
                    {
                        const lz_i64 i0 = ((g_row + 0)) / 110;
                        const lz_i64 i2 = (((g_row + 0)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 0))) % 11;
                        const lz_i64 k0 = ((g_k + 2)) / 9;
                        const lz_i64 k1 = (((g_k + 2)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 2))) % 3;
                        g_a0_2 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a0_3;
                    {
                        const lz_i64 i0 = ((g_row + 0)) / 110;
                        const lz_i64 i2 = (((g_row + 0)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 0))) % 11;
                        const lz_i64 k0 = ((g_k + 3)) / 9;
                        const lz_i64 k1 = (((g_k + 3)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 3))) % 3;
                        g_a0_3 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a1_0;
                    {
                        const lz_i64 i0 = ((g_row + 1)) / 110;
                        const lz_i64 i2 = (((g_row + 1)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 1))) % 11;
                        const lz_i64 k0 = ((g_k + 0)) / 9;
                        const lz_i64 k1 = (((g_k + 0)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 0))) % 3;
                        g_a1_0 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a1_1;
                    {
                        const lz_i64 i0 = ((g_row + 1)) / 110;
                        const lz_i64 i2 = (((g_row + 1)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 1))) % 11;
                        const lz_i64 k0 = ((g_k + 1)) / 9;
                        const lz_i64 k1 = (((g_k + 1)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 1))) % 3;
                        g_a1_1 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a1_2;
                    {
                        const lz_i64 i0 = ((g_row + 1)) / 110;
                        const lz_i64 i2 = (((g_row + 1)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 1))) % 11;
                        const lz_i64 k0 = ((g_k + 2)) / 9;
                        const lz_i64 k1 = (((g_k + 2)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 2))) % 3;
                        g_a1_2 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a1_3;
                    {
                        const lz_i64 i0 = ((g_row + 1)) / 110;
                        const lz_i64 i2 = (((g_row + 1)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 1))) % 11;
                        const lz_i64 k0 = ((g_k + 3)) / 9;
                        const lz_i64 k1 = (((g_k + 3)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 3))) % 3;
                        g_a1_3 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
#pragma omp simd
                    for (lz_i64 g_col = g_col0; g_col < g_col1; g_col++) {
                        lz_f32 g_b0;
                        g_b0 = g_rows[(g_k + 0) * 8 + g_col];
                        lz_f32 g_b1;
                        g_b1 = g_rows[(g_k + 1) * 8 + g_col];
                        lz_f32 g_b2;
                        g_b2 = g_rows[(g_k + 2) * 8 + g_col];
                        lz_f32 g_b3;
                        g_b3 = g_rows[(g_k + 3) * 8 + g_col];
                        lz_f32 g_c0 = g_acc[(g_row + 0 - g_row0) * 8 + (g_col - g_col0)];
                        g_c0 = lz_mac_f32(g_a0_0, g_b0, g_c0);
                        g_c0 = lz_mac_f32(g_a0_1, g_b1, g_c0);
                        g_c0 = lz_mac_f32(g_a0_2, g_b2, g_c0);
                        g_c0 = lz_mac_f32(g_a0_3, g_b3, g_c0);
                        g_acc[(g_row + 0 - g_row0) * 8 + (g_col - g_col0)] = g_c0;
                        lz_f32 g_c1 = g_acc[(g_row + 1 - g_row0) * 8 + (g_col - g_col0)];
                        g_c1 = lz_mac_f32(g_a1_0, g_b0, g_c1);
                        g_c1 = lz_mac_f32(g_a1_1, g_b1, g_c1);
                        g_c1 = lz_mac_f32(g_a1_2, g_b2, g_c1);
                        g_c1 = lz_mac_f32(g_a1_3, g_b3, g_c1);
                        g_acc[(g_row + 1 - g_row0) * 8 + (g_col - g_col0)] = g_c1;
                    }
                }
            }
            for (lz_i64 g_k = 24; g_k < 27; g_k++) {
                lz_i64 g_row = g_row0;
                for (; g_row + 1 < g_row1; g_row += 2) {
                    lz_f32 g_a0_0;
                    {
                        const lz_i64 i0 = ((g_row + 0)) / 110;
                        const lz_i64 i2 = (((g_row + 0)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 0))) % 11;
                        const lz_i64 k0 = ((g_k + 0)) / 9;
                        const lz_i64 k1 = (((g_k + 0)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 0))) % 3;
                        g_a0_0 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
                    lz_f32 g_a1_0;
                    {
                        const lz_i64 i0 = ((g_row + 1)) / 110;
                        const lz_i64 i2 = (((g_row + 1)) / 11) % 10;
                        const lz_i64 i3 = (((g_row + 1))) % 11;
                        const lz_i64 k0 = ((g_k + 0)) / 9;
                        const lz_i64 k1 = (((g_k + 0)) / 3) % 3;
                        const lz_i64 k2 = (((g_k + 0))) % 3;
                        g_a1_0 = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
                    }
#pragma omp simd
                    for (lz_i64 g_col = g_col0; g_col < g_col1; g_col++) {
                        lz_f32 g_b0;
                        g_b0 = g_rows[(g_k + 0) * 8 + g_col];
                        lz_f32 g_c0 = g_acc[(g_row + 0 - g_row0) * 8 + (g_col - g_col0)];
                        g_c0 = lz_mac_f32(g_a0_0, g_b0, g_c0);
                        g_acc[(g_row + 0 - g_row0) * 8 + (g_col - g_col0)] = g_c0;
                        lz_f32 g_c1 = g_acc[(g_row + 1 - g_row0) * 8 + (g_col - g_col0)];
                        g_c1 = lz_mac_f32(g_a1_0, g_b0, g_c1);
                        g_acc[(g_row + 1 - g_row0) * 8 + (g_col - g_col0)] = g_c1;
                    }
                }
            }
            for (lz_i64 g_col = g_col0; g_col < g_col1; g_col++) {
#pragma omp simd
                for (lz_i64 g_row = g_row0; g_row < g_row1; g_row++) {
                    const lz_f32 g_value = g_acc[(g_row - g_row0) * 8 + (g_col - g_col0)];
                    const lz_i64 i0 = (g_row) / 110;
                    const lz_i64 i2 = ((g_row) / 11) % 10;
                    const lz_i64 i3 = ((g_row)) % 11;
                    const lz_i64 i1 = (g_col);
                    const lz_f32 acc = g_value;
                    y2[(((i0 * 880) + (i1 * 110)) + (i2 * 11)) + i3] = acc;
                }
            }
        }
    }
}
