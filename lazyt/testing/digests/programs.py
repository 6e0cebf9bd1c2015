"""The programs: Python expressions by what they are about, with what they compute with.

A program's name is its subject and its text, so that a difference names what differs. Texts see
``torch`` (lazyt), ``nn``, ``F``, ``D`` (distributions), the functions of ``values`` and
``training``, and the operands of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import lazyt
import lazyt.quasirandom
from lazyt.testing.digests import training, values


class Program(NamedTuple):
    """A program: ``name``, and what gives its results."""

    name: str
    run: Callable[[], Any]


_FLOATS = ("float32", "float64", "bfloat16", "float16")
_ELEMENTWISE = """
    abs acos=u acosh=1+x.abs() asin=u asinh atan atanh=u ceil cos cosh deg2rad digamma erf erfc
    erfinv=u exp exp2 expm1 floor frac i0 lgamma log=u log10=u log1p=u log2=u logit=u nan_to_num
    neg rad2deg reciprocal round rsqrt=u sgn sigmoid sign sin sinc sinh sqrt=u square tan tanh
    trunc sin=300*x cos=300*x tan=300*x exp=20*x lgamma=-20*u digamma=-20*u"""
_SPECIAL = """
    bessel_j0 bessel_j1 bessel_y0=u bessel_y1=u entr=u erfcx i0e i1 i1e log_ndtr ndtr ndtri=u
    modified_bessel_i0 modified_bessel_i1 modified_bessel_k0=u modified_bessel_k1=u airy_ai
    scaled_modified_bessel_k0=u scaled_modified_bessel_k1=u spherical_bessel_j0 psi=u"""
_SPECIAL_PAIRS = """
    gammainc=3*u,x.abs() gammaincc=3*u,x.abs() xlog1py=x,u xlogy=x,u zeta=1.5+u,1+u
    polygamma=2,u+1 multigammaln=u+3,3 chebyshev_polynomial_t=u,5 chebyshev_polynomial_u=u,5
    hermite_polynomial_h=x,4 hermite_polynomial_he=x,4 laguerre_polynomial_l=x,4
    legendre_polynomial_p=u,6"""
_ACTIVATIONS = """
    celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu
    relu6 selu silu softplus softshrink softsign tanhshrink softmax=x,0 log_softmax=x,0
    softmin=x,0 gelu=x,approximate='tanh' normalize=x,dim=0"""
_PAIRS = """
    add=x,y sub=x,y mul=x,y div=x,y pow=u,y pow=x,3 atan2=x,y fmod=x,y remainder=x,y hypot=x,y
    maximum=x,y minimum=x,y fmax=x,y logaddexp=x,y logaddexp2=x,y copysign=x,y xlogy=u,u
    nextafter=x,y floor_divide=x,y lerp=x,y,0.3 addcmul=x,y,u addcdiv=x,y,1+u
    clamp=x,-1,1 heaviside=x,y ldexp=x,y.round() float_power=u,2.5"""
_FOLDS = """
    sum mean std var amax amin prod logsumexp argmax argmin cumsum cumprod logcumsumexp median
    softmax cummax cummin norm nansum nanmean sort argsort aminmax var_mean"""
_PRODUCTS = """
    a(37,129)@b(129,65) a(64,64)@b(64,64) a(1,300)@b(300,70) a(70,300)@b(300,1) a(5,3)@b(3,7)
    a(6,33,40)@b(6,40,21) a(200,17)@b(17,200) torch.dot(a(1000),b(1000)) a(70,90)@b(90)
    torch.outer(a(40),b(50)) torch.einsum('abc,cda->bd',a(4,5,6),b(6,7,4))
    torch.addmm(a(20,30),b(20,9),a(9,30)) torch.baddbmm(a(2,5,6),b(2,5,4),a(2,4,6))
    torch.kron(a(3,4),b(5,2)) torch.tensordot(a(4,5,6),b(6,5,3),dims=([1,2],[1,0]))
    torch.cumsum(a(3,2000),1) torch.linalg.multi_dot([a(4,9),b(9,30),a(30,3)])
    torch.linalg.vecdot(a(7,80),b(7,80)) a(40,50).mT@b(40,30) (a(128,96)@b(96,40)).relu()
    """
_CONVOLUTIONS = """
    F.conv1d(a(2,5,60),b(4,5,3)) F.conv1d(a(2,6,60),b(6,1,5),groups=6,padding=2)
    F.conv2d(a(3,5,19,23),b(7,5,3,3),padding=1) F.conv2d(a(3,5,19,23),b(10,1,5,5),stride=2,groups=5)
    F.conv2d(a(2,16,12,12),b(24,16,1,1)) F.conv2d(a(1,8,20,20),b(8,8,3,3),dilation=2)
    F.conv3d(a(1,2,6,7,8),b(3,2,3,3,3)) F.conv_transpose2d(a(2,5,9,9),b(5,4,3,3),stride=2)
    F.conv_transpose1d(a(2,4,20),b(4,3,4)) F.avg_pool2d(a(3,5,19,23),3)
    F.max_pool2d(a(3,5,19,23),3,2) F.adaptive_avg_pool2d(a(3,5,19,23),4) F.lp_pool2d(a(1,3,9,9),2,3)
    F.interpolate(a(3,5,9,13),size=(31,17),mode='bilinear')
    F.interpolate(a(1,2,9,13),size=(20,5),mode='bicubic') F.unfold(a(1,3,9,9),3)
    F.grid_sample(a(1,2,6,6),b(1,5,5,2)/4,align_corners=False)
    F.scaled_dot_product_attention(a(2,4,50,16),b(2,4,50,16),c(2,4,50,16),is_causal=True)
    F.layer_norm(a(33,129),(129,)) F.group_norm(a(4,6,5,5),3) F.rms_norm(a(33,129),(129,))
    F.batch_norm(a(9,4,7,7),None,None,training=True) F.instance_norm(a(3,4,7,7))
    F.local_response_norm(a(2,6,5,5),3) F.cross_entropy(a(40,12),whole(40,below=12))
    F.bilinear(a(5,3),b(5,4),c(6,3,4)) F.embedding(whole(30,below=12),a(12,7))
    torch.zeros(13,40,dtype=dt).index_add(0,whole(300,below=13),a(300,40))
    torch.zeros(400,dtype=dt).scatter_add(0,whole(3000,below=400),a(3000))
    """
_INTEGERS = """
    n//7 n%7 n<<3 n>>1 n**2 n/3 n&m n|m n^m -n//(m+1) torch.gcd(n,m) torch.lcm(n,m+1) n.cumsum(0)
    n.sum() n.float().mean() torch.bincount(n) torch.sort(n)[1] torch.unique(n) n.prod()
    torch.searchsorted(torch.sort(n)[0],m) n.reshape(50,60)@m.reshape(60,50) ~n n.to(torch.int8)*3
    torch.histc(n.float(),10) torch.topk(n,9)[0] torch.nonzero(n%5==0) n.double().sqrt().long()
    """
_COMPLEX = """
    abs angle acos acosh asin asinh atan atanh conj cos cosh exp log log10 log2 reciprocal sgn
    sigmoid sin sinh sqrt square tan tanh prod sum mean cumsum=z,0 cumprod=z[:40],0 mul=z,w
    div=z,w pow=z,w pow=z,2 add=z,w dot=z,w matmul=z.reshape(20,15),w.reshape(15,20)
    polar=z.abs(),z.real view_as_real=z"""
_FOURIER = """
    fft ifft rfft ihfft fft2 ifft2 rfft2 fftn rfftn fft=x,n=97 fft=x,dim=0 ifft=x,norm='ortho'
    irfft=torch.fft.rfft(x),n=120 hfft=torch.fft.rfft(x) irfft2=torch.fft.rfft2(x) fftshift
    fft=spread(2,1024,dtype=dt) rfft=spread(3,1009,dtype=dt) irfft=torch.complex(x,y),n=31
    fft=spread(5,30,dtype=dt) fft=spread(1,4096,dtype=dt)"""
#: Factorizations, for matrices of several sizes; signs of vectors are lazyt's, and part of them.
_MATRICES = """
    det=A slogdet=A inv=A solve=A,B lu_factor=A lu=A cholesky=S qr=A qr=R eigh=S eigvalsh=S svd=R
    svdvals=A solve_triangular=L,B,upper=False matrix_power=A,3 cond=A norm=R
    matrix_norm=R,ord='nuc' matrix_rank=A vector_norm=R,ord=3 householder_product=A,A[...,0]
    tensorinv=A.reshape(*A.shape[:-1],A.shape[-1],1),ind=1"""
_RANDOM = """
    rand(1000) randn(1000) randint(0,99,(1000,)) randperm(1000) rand(100,dtype=torch.float64)
    randn(100,dtype=torch.float64) bernoulli(u) poisson(5*u) multinomial(u,20) normal(x,u)
    binomial(torch.full_like(u,9),u) empty(300).exponential_() empty(300).cauchy_()
    empty(300).log_normal_() empty(300).geometric_(0.3) empty(300).uniform_(-2,2)
    empty(300,dtype=torch.int64).random_(0,50) rand(90,dtype=torch.bfloat16)
    randn(90,dtype=torch.float16) nn.functional.dropout(x,0.3) nn.functional.gumbel_softmax(x,dim=0)
    nn.functional.alpha_dropout(x,0.2) nn.functional.rrelu(x,training=True)
    quasirandom.SobolEngine(5,scramble=True,seed=3).draw(33) randn(40,dtype=torch.complex64)
    """
_INITIAL = """
    uniform_ normal_ kaiming_normal_ kaiming_uniform_ orthogonal_ sparse_=w,0.3 trunc_normal_
    xavier_normal_ xavier_uniform_ eye_ dirac_=torch.empty(4,3,3,3)"""
#: Samples, log-probabilities and entropies are of each; numbers are small tensors.
_DISTRIBUTIONS = """
    Bernoulli(p) Beta(q,q+1) Binomial(7,p) Categorical(p) Cauchy(m,q) Chi2(q+1)
    ContinuousBernoulli(p) Dirichlet(q) Exponential(q) FisherSnedecor(q+2,q+3) Gamma(q,p+1)
    Geometric(p) Gumbel(m,q) HalfCauchy(q) HalfNormal(q) Independent(D.Normal(m,q),1)
    InverseGamma(q+1,q) Kumaraswamy(q,q+1) LKJCholesky(3,1.5) Laplace(m,q) LogNormal(m,q)
    LogisticNormal(m,q) LowRankMultivariateNormal(m,spread(5,2),q)
    MixtureSameFamily(D.Categorical(p),D.Normal(m,q)) Multinomial(9,p)
    MultivariateNormal(m,positive(5,5)) NegativeBinomial(4,p) Normal(m,q) OneHotCategorical(p)
    OneHotCategoricalStraightThrough(p) Pareto(q,q+1) Poisson(4*q)
    RelaxedBernoulli(torch.tensor(0.7),p) RelaxedOneHotCategorical(torch.tensor(0.7),p)
    StudentT(q+2) TransformedDistribution(D.Normal(m,q),[D.transforms.SigmoidTransform()])
    Uniform(m,m+q) VonMises(m,q) Weibull(q,q+1) Wishart(6.5,positive(5,5))"""
_SAMPLERS = """
    RandomSampler(range(90)) RandomSampler(range(30),replacement=True,num_samples=70)
    SubsetRandomSampler(range(5,60)) WeightedRandomSampler([1,2,0.5,4,3],50)
    BatchSampler(torch.utils.data.RandomSampler(range(50)),8,False)
    DistributedSampler(range(40),2,1,seed=5)"""


def programs() -> list[Program]:
    """All programs, made anew."""
    return [Program(name, _runner(text, names)) for name, text, names in _texts()]


def _runner(text: str, names: Callable[[], dict[str, Any]]) -> Callable[[], Any]:
    def run() -> Any:
        return eval(text, names())

    return run


def _names(**more: Any) -> dict[str, Any]:
    own = ("unit", "spread", "whole", "matrix", "positive")
    made = {name: getattr(values, name) for name in own}
    made |= {name: getattr(training, name) for name in training.__all__}
    return {
        "torch": lazyt, "nn": lazyt.nn, "F": lazyt.nn.functional, "D": lazyt.distributions,
        **made, **more,
    }  # fmt: skip


def _calls(table: str, plain: str) -> Iterator[tuple[str, str]]:
    """Functions and their arguments; those of ``name`` alone are ``plain``."""
    for entry in table.split():
        name, _, given = entry.partition("=")
        yield name, given or plain


def _texts() -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    """Name, text and names of each program."""
    for dtype in _FLOATS:
        yield from _of_floats(dtype)
    for dtype in ("float32", "float64"):
        yield from _of_wide(dtype)
    ints = _once(
        n=("whole", (3000,), {"below": 900}), m=("whole", (3000,), {"below": 7, "seed": 1})
    )
    for text in _INTEGERS.split():
        yield f"int64: {text}", text, ints
    drawn = _once(
        x=("spread", (30, 20), {}), u=("unit", (300,), {"seed": 2}), m=("spread", (5,), {}),
        q=("unit", (5,), {"seed": 3}), p=("unit", (5,), {"seed": 4}),
    )  # fmt: skip
    for text in _RANDOM.split():
        text = text.replace("normal(x,u)", "normal(u,u)")
        yield f"random: {text}", f"seeded(lambda: torch.{text})", drawn
    for name, given in _calls(_INITIAL, "w"):
        call = f"nn.init.{name}({given.replace('w', 'torch.empty(20,30)')})"
        yield f"random: {call}", f"seeded(lambda: {call})", _names
    for text in _DISTRIBUTIONS.split():
        yield f"distribution: {text}", f"drawn_from(D.{text})", drawn
    for text in _SAMPLERS.split():
        call = f"[*torch.utils.data.{text}]"
        yield f"sampler: {text}", f"torch.tensor(flat(seeded(lambda: {call})))", _names
    for text in training.MODULES.split():
        yield f"module: {text}", f"through({text!r})", _names
    for text in training.OPTIMIZERS.split():
        yield f"optimizer: {text}", f"optimized({text!r})", _names
    for text in training.SCHEDULES.split():
        yield f"schedule: {text}", f"scheduled({text!r})", _names
    for text in training.NETWORKS:
        yield f"training: {text}", f"trained({text!r})", _names


def _once(**wanted: tuple[str, tuple[int, ...], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Names with operands, which are made when the first program of a table runs."""
    made: dict[str, Any] = {}

    def names() -> dict[str, Any]:
        if not made:
            made.update(_names())
            made.update({n: made[f](*shape, **more) for n, (f, shape, more) in wanted.items()})
        return made

    return names


def _of_floats(dtype: str) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    kind = {"dtype": dtype}
    line = _once(
        x=("spread", (258,), kind), y=("spread", (258,), {**kind, "seed": 1}),
        u=("unit", (258,), {**kind, "seed": 2}),
    )  # fmt: skip
    torch_calls = [*_calls(_ELEMENTWISE, "x"), *_calls(_PAIRS, "")]
    for name, given in torch_calls:
        yield f"{dtype}: {name}({given})", f"torch.{name}({given})", line
    for name, given in _calls(_ACTIVATIONS, "x"):
        yield f"{dtype}: F.{name}({given})", f"F.{name}({given})", line
    table = _once(t=("spread", (53, 91), kind))
    for name in _FOLDS.split():
        for dim in (0, 1):
            text = f"torch.{name}(t,dim={dim})"
            yield f"{dtype}: {text}", text, table
    yield f"{dtype}: t.sum()", "t.sum()", table

    def factors() -> dict[str, Any]:
        made = _names(dt=getattr(lazyt, dtype))
        for number, name in enumerate("abc"):
            made[name] = lambda *shape, seed=number: values.spread(*shape, dtype=dtype, seed=seed)
        return made

    for text in (_PRODUCTS + _CONVOLUTIONS).split():
        yield f"{dtype}: {text}", text, factors


def _of_wide(dtype: str) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    """What there is in float32 and float64 alone."""
    kind = {"dtype": dtype}
    line = _once(
        x=("spread", (258,), kind), y=("spread", (258,), {**kind, "seed": 1}),
        u=("unit", (258,), {**kind, "seed": 2}),
    )  # fmt: skip
    for name, given in (*_calls(_SPECIAL, "x"), *_calls(_SPECIAL_PAIRS, "")):
        yield f"{dtype}: special.{name}({given})", f"torch.special.{name}({given})", line
    for name, given in (*_calls(_ELEMENTWISE, "x"), *_calls(_PAIRS, "")):
        if name != "floor_divide":
            call = f"torch.{name}({given})"
            yield f"gradient {dtype}: {call}", f"slopes({call!r}, x, y, u)", line
    pair = _once(x=("spread", (300,), kind), y=("spread", (300,), {**kind, "seed": 1}))

    def numbers() -> dict[str, Any]:
        made = pair()
        made["z"] = lazyt.complex(made["x"], made["y"])
        made["w"] = lazyt.complex(made["y"], made["x"] + 1)
        return made

    for name, given in _calls(_COMPLEX, "z"):
        yield f"complex {dtype}: {name}({given})", f"torch.{name}({given})", numbers
    rows = _once(x=("spread", (6, 120), kind), y=("spread", (6, 16), {**kind, "seed": 1}))

    def waves() -> dict[str, Any]:
        made = rows()
        made["dt"], made["x"] = dtype, made["x"]
        return made

    for name, given in _calls(_FOURIER, "x"):
        given = given.replace("torch.complex(x,y)", "torch.complex(y,y.flip(0))")
        yield f"fft {dtype}: {name}({given})", f"torch.fft.{name}({given})", waves
    for shape in ((3,), (8,), (5, 4), (32,)):
        yield from _of_matrices(dtype, shape)


def _of_matrices(
    dtype: str, shape: tuple[int, ...]
) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    n, kind = shape[-1], {"dtype": dtype}
    some = _once(
        A=("matrix", (*shape, n), kind), S=("positive", (*shape, n), {**kind, "seed": 1}),
        B=("spread", (*shape, 2), {**kind, "seed": 2}), R=("spread", (*shape, n - 1), kind),
    )  # fmt: skip

    def names() -> dict[str, Any]:
        made = some()
        made["L"] = made["A"].tril()
        return made

    for name, given in _calls(_MATRICES, "A"):
        if name == "tensorinv" and len(shape) > 1:
            continue
        text = f"torch.linalg.{name}({given})"
        yield f"matrix {dtype}{[*shape, n]}: {name}({given})", text, names
