"""The math prelude: every function against a wider type, special values, integers, casts."""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tests.codegen.prelude_harness as harness
from lazyt.codegen.prelude import ULP, function_names, sections_for
from lazyt.errors import InternalError
from tests.codegen.prelude_harness import words

pytestmark = pytest.mark.skipif(harness.compiler() is None, reason="needs a C compiler")

UNARY = words(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid floor ceil trunc round "
    "neg abs"
)
BINARY = words("pow atan2 hypot fmod mod copysign")
HOT = words(
    "exp exp_nonpositive exp2 expm1 log log2 log1p tanh sigmoid erf erfc sin cos tan sqrt atan pow"
)
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
INT_FUNCTIONS = words(
    "neg abs sign maximum minimum fmax fmin floordiv mod fmod pow shift_left shift_right "
    "isnan isinf isfinite signbit"
)
PREDICATES = ("isnan", "isinf", "isfinite", "signbit")
ARITY_ONE = ("neg", "abs", "sign", *PREDICATES)
CAST_TYPES = ("b8", *INTS, "f32", "f64")


def _signatures() -> dict[str, tuple[list[str], str]]:
    table: dict[str, tuple[list[str], str]] = {}
    for s in ("f32", "f64"):
        table |= {f"lz_{name}_{s}": ([s], s) for name in UNARY}
        pairs = (*BINARY, "maximum", "minimum", "fmax", "fmin", "floordiv")
        table |= {f"lz_{name}_{s}": ([s, s], s) for name in pairs}
        table |= {f"lz_{name}_{s}": ([s], "b8") for name in PREDICATES}
        table[f"lz_sign_{s}"] = table[f"lz_exp_nonpositive_{s}"] = ([s], s)
    for s in INTS:
        for name in INT_FUNCTIONS:
            result = "b8" if name in PREDICATES else s
            table[f"lz_{name}_{s}"] = ([s] if name in ARITY_ONE else [s, s], result)
    for a in CAST_TYPES:
        table |= {f"lz_cast_{a}_{b}": ([a], b) for b in CAST_TYPES if a != b}
    for half in ("f16", "bf16"):
        table[f"lz_load_{half}"] = ([half], "f32")
        table[f"lz_store_{half}"] = (["f32"], half)
        table[f"lz_round_{half}"] = (["f32"], "f32")
    return table


SIGNATURES = _signatures()


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = harness.prelude_text([*SIGNATURES, "lz_threefry_u32"])
    # Vectorised loops cost seconds of compiling: only where vector code could round otherwise.
    loops = "".join(
        harness.loop(f, args, result, simd=f.endswith(("f32", "f64")) and "cast" not in f)
        for f, (args, result) in SIGNATURES.items()
    )
    loops += "lz_u32 threefry(lz_u32 a, lz_u32 b, lz_u64 c) { return lz_threefry_u32(a, b, c); }\n"
    flags = [flag if flag != "-O3" else "-O1" for flag in harness.FLAGS]
    return harness.build(tmp_path_factory.mktemp("prelude"), "prelude", text + loops, flags)[0]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    names = [f"lz_{name}_{s}" for name in (*UNARY, *BINARY) for s in ("f32", "f64")]
    source = harness.reference_source(names)
    folder = tmp_path_factory.mktemp("reference")
    return harness.build(folder, "reference", source, ["-O2", "-fPIC", "-shared"])[0]


@pytest.fixture
def run(lib: ctypes.CDLL) -> Callable[..., np.ndarray]:
    def call(name: str, *values: object) -> np.ndarray:
        types, result = SIGNATURES[name]
        with np.errstate(all="ignore"):
            arrays = [np.asarray(v, harness.C_TYPES[t]).ravel() for v, t in zip(values, types)]
        return harness.apply(lib, name, result, *arrays)

    return call


def _samples(suffix: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    edges = [0.0, -0.0, 0.5, 1, -1, 2, np.inf, -np.inf, np.nan, 1e-310, 88.7228, 709.78, -745.1]
    if suffix == "f32":
        bits = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32)
        near = np.repeat(np.array([0, 1, 0x800000, 0x3F800000, 0x7F800000], np.int64), 33)
        near = (near + np.tile(np.arange(-16, 17), 5)) % 2**32
        quarters = (np.arange(1, 4000) * (np.pi / 2)).astype(np.float32)
        bits = np.concatenate([bits, near.astype(np.uint32), quarters.view(np.uint32)])
        return np.concatenate([bits.view(np.float32), np.array(edges, np.float32)])
    return np.concatenate([
        rng.integers(0, 2**64, 40000, dtype=np.uint64).view(np.float64),
        rng.normal(size=40000) * np.exp(rng.normal(size=40000) * 3),
        rng.uniform(-1, 1, 30000), 1 + rng.normal(size=20000) * 1e-3,
        rng.integers(0, 2**51, 500, dtype=np.uint64).view(np.float64),
        np.arange(1, 4000) * (np.pi / 2), np.array(edges),
    ])  # fmt: skip


SAMPLES = {suffix: _samples(suffix) for suffix in ("f32", "f64")}


@pytest.mark.parametrize("suffix", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_within_stated_error(
    lib: ctypes.CDLL, reference: ctypes.CDLL, name: str, suffix: str
) -> None:
    function, x = f"lz_{name}_{suffix}", SAMPLES[suffix]
    if suffix == "f64" and name in ("lgamma", "digamma"):
        x = x[x > 0]  # the bound is for these; below see test_gamma_functions_below_zero
        x = x[abs(x - 1.4616321449683622) > 1e-3]  # where the reference itself loses digits
    got = harness.apply(lib, function, suffix, x)
    error, where = harness.worst(reference, function, x, x, got)
    assert error <= ULP[function], f"{function}({x[where]!r}) = {got[where]!r}"


def test_without_fused_steps(reference: ctypes.CDLL, tmp_path: Path) -> None:
    """On a CPU without fused multiply-adds the functions keep the errors that they state."""
    gamma = words("lgamma digamma")  # these hold on half of the line only, see above
    names = [f"lz_{name}_{s}" for name in UNARY if name not in gamma for s in ("f32", "f64")]
    loops = "".join(harness.loop(name, [name[-3:]], name[-3:]) for name in names)
    text = re.sub(r"#if defined\(__FMA__\).*", "#if 0", harness.prelude_text(names))
    assert "#if 0" in text
    library, _ = harness.build(tmp_path, "unfused", text + loops, [*harness.FLAGS, "-O1"])
    for name in names:
        x = SAMPLES[name[-3:]]
        got = harness.apply(library, name, name[-3:], x)
        error, where = harness.worst(reference, name, x, x, got)
        assert error <= ULP[name], f"{name}({x[where]!r}) = {got[where]!r}"


@pytest.mark.parametrize("suffix", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_within_stated_error(
    lib: ctypes.CDLL, reference: ctypes.CDLL, name: str, suffix: str
) -> None:
    function, rng, dtype = f"lz_{name}_{suffix}", np.random.default_rng(3), harness.C_TYPES[suffix]
    edges = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 1e-45, 7.5, 3e38]
    special, n = np.array(edges).astype(dtype), 60000
    x = np.concatenate([
        np.repeat(special, special.size), rng.choice(SAMPLES[suffix], n),
        np.exp(rng.normal(size=n) * 2).astype(dtype),
    ])  # fmt: skip
    y = np.concatenate([
        np.tile(special, special.size), rng.choice(SAMPLES[suffix], n),
        (rng.normal(size=n) * np.exp(rng.normal(size=n) * 2)).astype(dtype),
    ])  # fmt: skip
    got = harness.apply(lib, function, suffix, x, y)
    error, where = harness.worst(reference, function, x, y, got)
    assert error <= ULP[function], f"{function}({x[where]!r}, {y[where]!r}) = {got[where]!r}"


@pytest.mark.slow
@pytest.mark.skipif("LAZYT_TEST_EVERY_FLOAT32" not in os.environ, reason="takes an hour")
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(lib: ctypes.CDLL, reference: ctypes.CDLL, name: str) -> None:
    function = f"lz_{name}_f32"
    for start in range(0, 2**32, 2**24):
        x = np.arange(start, start + 2**24, dtype=np.uint32).view(np.float32)
        got = harness.apply(lib, function, "f32", x)
        error, where = harness.worst(reference, function, x, x, got)
        assert error <= ULP[function], f"{function}({x[where]!r}) = {got[where]!r}"


def test_gamma_functions_below_zero(run: Callable[..., np.ndarray]) -> None:
    # Values computed with 40 digits.
    x = [-0.5, -1.5, -2.25, -10.75, -100.125]
    lgamma = [1.2655121234846454, 0.860047015376481015, 0.555501545020647471]
    lgamma += [-15.4030745035048173, -362.210446425845515]
    digamma = [0.0364899739785765206, 0.703156640645243187, 4.15858356465797227]
    digamma += [-0.720895760167161174, 12.1958804424833459]
    np.testing.assert_allclose(run("lz_lgamma_f64", x), lgamma, rtol=4e-15)
    np.testing.assert_allclose(run("lz_digamma_f64", x), digamma, rtol=2e-14)
    many = -np.random.default_rng(2).uniform(0, 60, 2000)
    want = np.array([math.lgamma(value) for value in many.tolist()])
    scale = np.array([math.lgamma(2 - value) for value in many.tolist()])
    assert (abs(run("lz_lgamma_f64", many) - want) <= 2e-15 * (4 + abs(scale))).all()
    assert run("lz_digamma_f64", [0.0, -0.0, -1, -np.inf]).tolist()[:2] == [-np.inf, np.inf]
    assert np.isnan(run("lz_digamma_f64", [-1, -2, -np.inf, np.nan])).all()
    assert np.isinf(run("lz_lgamma_f64", [0.0, -1, -2, -np.inf, np.inf])).all()


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_comparisons_of_floats(run: Callable[..., np.ndarray], suffix: str) -> None:
    values = np.array([0.0, 1.5, -2, np.inf, -np.inf, np.nan], harness.C_TYPES[suffix])
    x, y = np.repeat(values, 6), np.tile(values, 6)
    for name in ("maximum", "minimum", "fmax", "fmin"):
        with np.errstate(invalid="ignore"):
            want = getattr(np, name)(x, y)
        np.testing.assert_array_equal(run(f"lz_{name}_{suffix}", x, y), want)
    values = np.append(values, [-0.0, -np.nan]).astype(values.dtype)
    for name in PREDICATES:
        np.testing.assert_array_equal(run(f"lz_{name}_{suffix}", values), getattr(np, name)(values))
    assert run(f"lz_sign_{suffix}", [-3, 0, 2, np.nan, -np.inf]).tolist() == [-1, 0, 1, 0, -1]


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_floor_division_of_floats(run: Callable[..., np.ndarray], suffix: str) -> None:
    # What PyTorch gives, and NumPy except for infinite divisors.
    inf = np.inf
    x = [1.0, -1, 0, 5, 5, inf, -5, -6, 7.5, 1]
    y = [0.0, 0, 0, inf, -inf, 2, inf, 3, -2, 0.1]
    want = [inf, -inf, np.nan, 0, -1, np.nan, -1, -2, -4, 9]
    np.testing.assert_array_equal(run(f"lz_floordiv_{suffix}", x, y), want)
    rng = np.random.default_rng(5)
    a = (rng.normal(size=2000) * 50).astype(harness.C_TYPES[suffix])
    b = rng.normal(size=2000).astype(harness.C_TYPES[suffix])
    np.testing.assert_array_equal(run(f"lz_floordiv_{suffix}", a, b), np.floor_divide(a, b))


def test_rounding_without_an_instruction(tmp_path: Path) -> None:
    names = [f"lz_{n}_{s}" for n in ("floor", "ceil", "trunc", "round") for s in ("f32", "f64")]
    loops = "".join(harness.loop(name, [name[-3:]], name[-3:]) for name in names)
    text = (
        harness.prelude_text(names).replace("__SSE4_1__", "LZ_NO").replace("__aarch64__", "LZ_NO")
    )
    library, _ = harness.build(tmp_path, "rounding", text + loops, harness.FLAGS)
    for name in names:
        x = SAMPLES[name[-3:]]
        got = harness.apply(library, name, name[-3:], x)
        with np.errstate(invalid="ignore"):
            want = getattr(np, name[3:-4])(x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def _int_values(suffix: str) -> np.ndarray:
    info = np.iinfo(np.dtype(harness.C_TYPES[suffix]))
    rng = np.random.default_rng(11)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 63, 64, 100]
    edges += [-1, -2, -3, -7] if info.min < 0 else []
    more = rng.integers(info.min, info.max, 20, dtype=info.dtype, endpoint=True).tolist()
    return np.array([*edges, *more, *range(10)], info.dtype)


def _int_result(name: str, x: int, y: int, bits: int) -> int:
    if name in ("floordiv", "mod", "fmod"):
        if y == 0:
            return 0
        truncated = abs(x) % abs(y) * (1 if x >= 0 else -1)
        return {"floordiv": x // y, "mod": x % y, "fmod": truncated}[name]
    if name == "pow":
        if y < 0:
            return {1: 1, -1: -1 if y & 1 else 1}.get(x, 0)
        return pow(x, y, 1 << bits)
    if name == "shift_left":
        return x << y if 0 <= y < bits else 0
    return x >> (y if 0 <= y < bits else bits)


@pytest.mark.parametrize("suffix", INTS)
@pytest.mark.parametrize("name", ["floordiv", "mod", "fmod", "pow", "shift_left", "shift_right"])
def test_integer_pairs(run: Callable[..., np.ndarray], name: str, suffix: str) -> None:
    values = _int_values(suffix)
    x, y = np.repeat(values, values.size), np.tile(values, values.size)
    bits = 8 * values.itemsize
    exact = [_int_result(name, a, b, bits) for a, b in zip(x.tolist(), y.tolist())]
    wrapped = np.array([value % 2**bits for value in exact], np.uint64).astype(values.dtype)
    np.testing.assert_array_equal(run(f"lz_{name}_{suffix}", x, y), wrapped)


@pytest.mark.parametrize("suffix", INTS)
def test_integer_signs(run: Callable[..., np.ndarray], suffix: str) -> None:
    values = _int_values(suffix)
    for name, reference in (("neg", np.negative), ("abs", np.abs), ("sign", np.sign)):
        np.testing.assert_array_equal(run(f"lz_{name}_{suffix}", values), reference(values))
    other = values[::-1]
    for name in ("maximum", "minimum", "fmax", "fmin"):
        want = getattr(np, name)(values, other)
        np.testing.assert_array_equal(run(f"lz_{name}_{suffix}", values, other), want)
    for name, want in (("isnan", False), ("isinf", False), ("isfinite", True)):
        assert (run(f"lz_{name}_{suffix}", values) == want).all()
    np.testing.assert_array_equal(run(f"lz_signbit_{suffix}", values), values < 0)


def _cast_reference(x: float, target: str) -> int | bool:
    if target == "b8":
        return x != 0
    path = 64 if target in ("u32", "i64", "u64") else 32
    if target == "u64" and 2.0**63 <= x < 2.0**64:
        return int(x)
    if target == "u64" and x >= 2.0**64:
        return 0
    inside = -(2.0 ** (path - 1)) <= np.trunc(x) < 2.0 ** (path - 1)
    whole = int(x) if inside else -(2 ** (path - 1))
    return int(np.array(whole % 2**64, np.uint64).astype(harness.C_TYPES[target]))


@pytest.mark.parametrize("target", ["b8", *INTS])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer(run: Callable[..., np.ndarray], source: str, target: str) -> None:
    edges = [0.0, -0.0, 0.9, -0.9, 127.5, 300, -300, 70000, 2147483520.0, -2147483648.0, 3e9, -3e9]
    edges += [2.0**63, -(2.0**63), 1.5e19, 2.0**64, 1e20, -1e20, np.inf, -np.inf, np.nan, 1e-45]
    values = np.array(edges, harness.C_TYPES[source])
    got = run(f"lz_cast_{source}_{target}", values).tolist()
    assert got == [_cast_reference(x, target) for x in values.tolist()]


@pytest.mark.parametrize("source", ["b8", *INTS])
def test_integer_casts(run: Callable[..., np.ndarray], source: str) -> None:
    values = np.array([0, 1], np.uint8) if source == "b8" else _int_values(source)
    for target in CAST_TYPES:
        if target != source:
            dtype = bool if target == "b8" else harness.C_TYPES[target]
            got = run(f"lz_cast_{source}_{target}", values)
            np.testing.assert_array_equal(got, values.astype(dtype))


def test_float16_every_value(run: Callable[..., np.ndarray]) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    wide = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(run("lz_load_f16", bits), wide)
    finite = ~np.isnan(wide)
    np.testing.assert_array_equal(run("lz_store_f16", wide)[finite], bits[finite])
    assert np.isnan(run("lz_store_f16", wide[~finite]).view(np.float16)).all()


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_half_rounding(run: Callable[..., np.ndarray], half: str) -> None:
    x = SAMPLES["f32"]
    x = np.concatenate([x, (np.arange(2**17, dtype=np.uint32) * 0x1000 + 0x38000000).view("f4")])
    bits = x.view(np.uint32)
    if half == "f16":
        with np.errstate(over="ignore"):
            want = x.astype(np.float16).astype(np.float32)
    else:
        kept = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32)
        want = np.where(np.isnan(x), np.float32(np.nan), kept.view(np.float32))
    rounded = run(f"lz_round_{half}", x)
    np.testing.assert_array_equal(rounded, want)
    np.testing.assert_array_equal(np.signbit(rounded[x == 0]), np.signbit(x[x == 0]))
    np.testing.assert_array_equal(run(f"lz_load_{half}", run(f"lz_store_{half}", x)), want)


def test_threefry_known_answers(lib: ctypes.CDLL) -> None:
    # Salmon et al.'s vectors; counters are (low word, high word).
    lib.threefry.restype = ctypes.c_uint32
    ones, pi = 2**64 - 1, (0x13198A2E, 0x03707344, 0x85A308D3243F6A88)
    cases = [(0, 0, 0, 0x6B200159), (2**32 - 1, 2**32 - 1, ones, 0x1CB996FC), (*pi, 0xC4923A9C)]
    for a, b, counter, want in cases:
        got = lib.threefry(ctypes.c_uint32(a), ctypes.c_uint32(b), ctypes.c_uint64(counter))
        assert got == want


@pytest.mark.parametrize("name", HOT)
def test_hot_functions_vectorise(tmp_path: Path, name: str) -> None:
    function = f"lz_{name}_f32"
    types, result = SIGNATURES[function]
    source = harness.prelude_text([function]) + harness.loop(function, types, result)
    clang = "clang" in harness.compiler_version()
    flags = [*harness.FLAGS, "-Rpass=loop-vectorize" if clang else "-fopt-info-vec"]
    _, report = harness.build(tmp_path, name, source, flags)
    assert re.search(r"loop vectorized|vectorized loop", report), report


def test_sections_come_with_what_they_need() -> None:
    sections = sections_for(["lz_tanh_f32", "lz_exp_f32"])
    names = [name for name, _ in sections]
    assert names[0] == "base" and len(set(names)) == len(names)
    assert sections == sections_for(("lz_exp_f32", "lz_tanh_f32", "lz_exp_f32"))
    for i, (name, text) in enumerate(sections):
        used = set(re.findall(r"\blz_\w+", text)) & set(function_names())
        assert used <= {*names[: i + 1]}, name
    assert len("".join(text for _, text in sections)) < 8000


def test_unknown_function() -> None:
    with pytest.raises(InternalError, match="lz_nothing_f32"):
        sections_for(["lz_nothing_f32"])


def test_text_is_plain_c_and_cpp(tmp_path: Path) -> None:
    names = [name for name in function_names() if name != "base"]
    text = harness.prelude_text(names)
    assert "#include" not in text and "@" not in text
    warnings = words("-Wall -Wextra -Wfloat-conversion -Werror -fopenmp -fPIC -shared")
    harness.build(tmp_path, "plain", text, ["-std=c11", "-pedantic", *warnings])
    # With fused steps, which would narrow a float64 that is given to those of float32.
    plus = ["-x", "c++", "-fno-exceptions", "-D__FMA__", *warnings]
    harness.build(tmp_path, "plus", text, plus)
