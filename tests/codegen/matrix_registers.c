/* Executes the instructions of AMX on processors that lack them: they raise SIGILL, and the handler
 * reads the very bytes that would run on another machine. Made from Intel's Software Developer's
 * Manual, instruction set reference; what it does not allow ends the process with a message. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define ROWS 16
#define BYTES 64

static __thread struct {
    int configured;
    uint8_t rows[8];
    uint16_t bytes[8];
    uint8_t data[8][ROWS][BYTES];
} tiles;

static struct sigaction before;
static volatile long executed;

static void refuse(const char *why) {
    ssize_t ignored = write(2, why, strlen(why));
    (void)ignored;
    abort();
}

static uint64_t reg(const ucontext_t *at, int number) {
    static const int places[8] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX,
                                  REG_RSP, REG_RBP, REG_RSI, REG_RDI};
    return (uint64_t)at->uc_mcontext.gregs[places[number]];
}

static void configure(const uint8_t *from) {
    if (from[0] != 1) refuse("matrix registers: no palette 1\n");
    for (int i = 1; i < 16; i++)
        if (from[i]) refuse("matrix registers: reserved bytes or a start row\n");
    for (int t = 0; t < 8; t++) {
        memcpy(&tiles.bytes[t], from + 16 + 2 * t, 2);
        tiles.rows[t] = from[48 + t];
        if (tiles.bytes[t] > BYTES || tiles.bytes[t] % 4 || tiles.rows[t] > ROWS)
            refuse("matrix registers: too large\n");
    }
    memset(tiles.data, 0, sizeof tiles.data);
    tiles.configured = 1;
}

static float wide(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void multiply_halves(int total, int left, int right) {
    unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x9fc0); /* nearest, subnormal numbers are zero, nothing is signaled */
    for (int m = 0; m < tiles.rows[total]; m++)
        for (int n = 0; n < tiles.bytes[total] / 4; n++) {
            float sums[2] = {0, 0}, sum;
            for (int k = 0; k < tiles.bytes[left] / 4; k++)
                for (int half = 0; half < 2; half++) {
                    uint16_t a, b;
                    memcpy(&a, &tiles.data[left][m][4 * k + 2 * half], 2);
                    memcpy(&b, &tiles.data[right][k][4 * n + 2 * half], 2);
                    sums[half] += wide(a) * wide(b);
                }
            memcpy(&sum, &tiles.data[total][m][4 * n], 4);
            sum += sums[0] + sums[1];
            memcpy(&tiles.data[total][m][4 * n], &sum, 4);
        }
    __builtin_ia32_ldmxcsr(mode);
}

static void multiply_bytes(int total, int left, int right) {
    for (int m = 0; m < tiles.rows[total]; m++)
        for (int n = 0; n < tiles.bytes[total] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, &tiles.data[total][m][4 * n], 4);
            for (int k = 0; k < tiles.bytes[left]; k++)
                sum += (uint32_t)((int8_t)tiles.data[left][m][k] *
                                  (int8_t)tiles.data[right][k / 4][4 * n + k % 4]);
            memcpy(&tiles.data[total][m][4 * n], &sum, 4);
        }
}

static int run(ucontext_t *at) {
    const uint8_t *code = (const uint8_t *)at->uc_mcontext.gregs[REG_RIP];
    if (code[0] != 0xc4 || code[1] != 0xe2 || (code[2] & 0x84) != 0) return 0;
    const int prefix = code[2] & 3, other = ~(code[2] >> 3) & 15, opcode = code[3];
    const int mod = code[4] >> 6, middle = code[4] >> 3 & 7, last = code[4] & 7;
    if (opcode == 0x49 && prefix == 0 && code[4] == 0xc0 && other == 0) {
        tiles.configured = 0;
        return 5;
    }
    if (opcode == 0x49 && prefix == 0 && mod == 0 && middle == 0 && other == 0) {
        if (last == 4 || last == 5) refuse("matrix registers: this address is not decoded\n");
        configure((const uint8_t *)reg(at, last));
        return 5;
    }
    if (!tiles.configured) refuse("matrix registers: none is configured\n");
    if (opcode == 0x49 && prefix == 3 && mod == 3 && last == 0 && other == 0) {
        memset(tiles.data[middle], 0, sizeof tiles.data[middle]);
        return 5;
    }
    if (opcode == 0x4b && (prefix == 3 || prefix == 2) && other == 0) {
        if (mod != 0 || last != 4 || code[5] >> 6 || (code[5] & 7) == 5 || (code[5] >> 3 & 7) == 4)
            refuse("matrix registers: this address is not decoded\n");
        uint8_t *place = (uint8_t *)reg(at, code[5] & 7);
        const int64_t pitch = (int64_t)reg(at, code[5] >> 3 & 7);
        if (prefix == 3) memset(tiles.data[middle], 0, sizeof tiles.data[middle]);
        for (int r = 0; r < tiles.rows[middle]; r++, place += pitch)
            if (prefix == 3) memcpy(tiles.data[middle][r], place, tiles.bytes[middle]);
            else memcpy(place, tiles.data[middle][r], tiles.bytes[middle]);
        return 6;
    }
    if (mod == 3 && ((opcode == 0x5c && prefix == 2) || (opcode == 0x5e && prefix == 3))) {
        if (other > 7 || middle == last || middle == other || last == other)
            refuse("matrix registers: three different ones are needed\n");
        if (tiles.rows[middle] != tiles.rows[last] || tiles.bytes[middle] != tiles.bytes[other] ||
            tiles.bytes[last] / 4 != tiles.rows[other])
            refuse("matrix registers: sizes that do not fit\n");
        (opcode == 0x5c ? multiply_halves : multiply_bytes)(middle, last, other);
        return 5;
    }
    return 0;
}

static void on_illegal(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    const int length = run(at);
    (void)number;
    (void)info;
    if (!length) {
        sigaction(SIGILL, &before, 0); /* somebody else's: it is raised again */
        return;
    }
    executed++;
    at->uc_mcontext.gregs[REG_RIP] += length;
}

/* From now on the instructions work. */
int lz_install(void) {
    struct sigaction mine;
    memset(&mine, 0, sizeof mine);
    mine.sa_sigaction = on_illegal;
    mine.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGILL, &mine, &before);
}

int lz_remove(void) { return sigaction(SIGILL, &before, 0); }

/* How many instructions were executed here so far. */
long lz_executed(void) { return executed; }
