void lz_kernel(char *b0_, char *b1_, char *b2_, char *b3_, char *ws, int threads) {
    const lz_f32 *restrict x0 = (const lz_f32 *)b0_;
    const lz_f32 *restrict x1 = (const lz_f32 *)b1_;
    const lz_f32 *restrict x2 = (const lz_f32 *)b2_;
    lz_f32 *restrict y3 = (lz_f32 *)b3_;
    const lz_i64 g_b = 0;
    lz_f32 *restrict g_rows = (lz_f32 *)(ws);
    for (lz_i64 g_col = 0; g_col < 32; g_col++) {
        for (lz_i64 g_k = 0; g_k < 64; g_k++) {
            {
                const lz_i64 i0 = (g_col);
                const lz_i64 k0 = (g_k);
                g_rows[g_k * 32 + g_col] = x0[(i0 * 64) + k0];
            }
        }
    }
    for (lz_i64 g_row0 = 0; g_row0 < 48; g_row0 += 16) {
        for (lz_i64 g_col0 = 0; g_col0 < 32; g_col0 += 32) {
            const lz_i64 g_row1 = g_row0 + 16 < 48 ? g_row0 + 16 : 48;
            const lz_i64 g_col1 = g_col0 + 32 < 32 ? g_col0 + 32 : 32;
            _Alignas(64) lz_f32 g_acc[512];
            for (lz_i64 g_i = 0; g_i < (g_row1 - g_row0) * 32; g_i++) {
                g_acc[g_i] = 0;
            }
            for (lz_i64 g_k = 0; g_k < 64; g_k += 4) {
                lz_i64 g_row = g_row0;
                for (; g_row + 1 < g_row1; g_row += 2) {
                    lz_f32 g_a0_0;
                    {
                        const lz_i64 k0 = ((g_k + 0));
                        const lz_i64 i1 = ((g_row + 0));
                        g_a0_0 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a0_1;
                    {
                        const lz_i64 k0 = ((g_k + 1));
                        const lz_i64 i1 = ((g_row + 0));
                        g_a0_1 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a0_2;
                    {
                        const lz_i64 k0 = ((g_k + 2));
                        const lz_i64 i1 = ((g_row + 0));
                        g_a0_2 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a0_3;
                    {
                        const lz_i64 k0 = ((g_k + 3));
                        const lz_i64 i1 = ((g_row + 0));
                        g_a0_3 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a1_0;
                    {
                        const lz_i64 k0 = ((g_k + 0));
                        const lz_i64 i1 = ((g_row + 1));
                        g_a1_0 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a1_1;
                    {
                        const lz_i64 k0 = ((g_k + 1));
                        const lz_i64 i1 = ((g_row + 1));
                        g_a1_1 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a1_2;
                    {
                        const lz_i64 k0 = ((g_k + 2));
                        const lz_i64 i1 = ((g_row + 1));
                        g_a1_2 = x1[(i1 * 64) + k0];
                    }
                    lz_f32 g_a1_3;
                    {
                        const lz_i64 k0 = ((g_k + 3));
                        const lz_i64 i1 = ((g_row + 1));
                        g_a1_3 = x1[(i1 * 64) + k0];
                    }
#pragma omp simd
                    for (lz_i64 g_col = g_col0; g_col < g_col1; g_col++) {
                        lz_f32 g_b0;
                        g_b0 = g_rows[(g_k + 0) * 32 + g_col];
                        lz_f32 g_b1;
                        g_b1 = g_rows[(g_k + 1) * 32 + g_col];
                        lz_f32 g_b2;
                        g_b2 = g_rows[(g_k + 2) * 32 + g_col];
                        lz_f32 g_b3;
                        g_b3 = g_rows[(g_k + 3) * 32 + g_col];
                        lz_f32 g_c0 = g_acc[(g_row + 0 - g_row0) * 32 + (g_col - g_col0)];
                        g_c0 = lz_mac_f32(g_a0_0, g_b0, g_c0);
                        g_c0 = lz_mac_f32(g_a0_1, g_b1, g_c0);
                        g_c0 = lz_mac_f32(g_a0_2, g_b2, g_c0);
                        g_c0 = lz_mac_f32(g_a0_3, g_b3, g_c0);
                        g_acc[(g_row + 0 - g_row0) * 32 + (g_col - g_col0)] = g_c0;
                        lz_f32 g_c1 = g_acc[(g_row + 1 - g_row0) * 32 + (g_col - g_col0)];
                        g_c1 = lz_mac_f32(g_a1_0, g_b0, g_c1);
                        g_c1 = lz_mac_f32(g_a1_1, g_b1, g_c1);
                        g_c1 = lz_mac_f32(g_a1_2, g_b2, g_c1);
                        g_c1 = lz_mac_f32(g_a1_3, g_b3, g_c1);
                        g_acc[(g_row + 1 - g_row0) * 32 + (g_col - g_col0)] = g_c1;
                    }
                }
            }
            for (lz_i64 g_col = g_col0; g_col < g_col1; g_col++) {
                _Alignas(64) lz_f32 g_line[16];
                for (lz_i64 g_row = g_row0; g_row < g_row1; g_row++) {
                    g_line[g_row - g_row0] = g_acc[(g_row - g_row0) * 32 + (g_col - g_col0)];
                }
#pragma omp simd
                for (lz_i64 g_row = g_row0; g_row < g_row1; g_row++) {
                    const lz_f32 g_value = g_line[g_row - g_row0];
                    const lz_i64 i0 = (g_col);
                    const lz_i64 i1 = (g_row);
                    const lz_f32 acc = g_value;
                    const lz_f32 v1 = acc + x2[i1];
                    const lz_f32 v2 = lz_maximum_f32(v1, 0.0f);
                    y3[(i0 * 48) + i1] = v2;
                }
            }
        }
    }
}
