"""Calls of linear algebra, run on any module of PyTorch's API and written down as text.

Each case is an expression; ``R`` gives reproducible random float64 tensors, ``g`` a function's
value with first and second derivatives. Signs that a factorization may choose are fixed first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Env = dict[str, Any]


def environment(torch: Any) -> Env:
    """The names that cases use."""
    rng = np.random.default_rng(11)

    def tensor(values: Any) -> Any:
        return torch.tensor(values, dtype=torch.float64)

    def random(*shape: int) -> Any:
        return tensor(rng.uniform(-1, 1, shape).tolist())

    env: Env = {
        "torch": torch, "L": torch.linalg, "F": torch.nn.functional, "math": math, "T": tensor,
        "R": random, "rng": rng, "inf": math.inf,
    }  # fmt: skip
    for name, shape in (
        ("A", (4, 4)), ("B", (2, 3, 3)), ("W", (3, 5)), ("TT", (5, 3)), ("v", (4,)), ("b", (4, 2)),
        ("BW", (2, 3, 4)), ("C", (4, 4)), ("BT", (2, 4, 3)), ("D", (2, 3, 4)), ("E_", (2, 4, 5)),
        ("w", (4,)), ("u", (3,)), ("G", (3, 3, 3)), ("one", (1, 4)), ("K", (2, 3, 4, 5)),
        ("X", (3, 4)), ("Y", (4, 5)), ("Q", (3, 3)),
    ):  # fmt: skip
        env[name] = random(*shape)
    one = torch.eye(4, dtype=torch.float64)
    env["S"] = env["A"] @ env["A"].mT + 2 * one
    env["BS"] = env["B"] @ env["B"].mT + torch.eye(3, dtype=torch.float64)
    env["Z"] = torch.zeros(3, 3, dtype=torch.float64)
    env["SI"] = tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    env["xs"] = [random(5, 4), random(6, 4), random(2, 5, 4), random(2, 6, 4)]
    env["H"], env["N"] = env["A"].half(), env["A"] * math.nan
    env["J"], env["P"] = torch.ones(3, 3, dtype=torch.int64), torch.stack([env["BS"][0], env["Z"]])
    env["s"], env["I"] = tensor(2.0), torch.arange(12).reshape(3, 4)
    env["bo"] = env["X"] > 0
    env.update(_signed(torch))
    env["g"] = _derivatives(torch)
    return env


def _signed(torch: Any) -> Env:
    """Factorizations with signs that depend on nothing but the matrix."""
    linalg = torch.linalg

    def qr(x: Any, mode: str = "reduced") -> Any:
        q, r = linalg.qr(x, mode)
        sign = torch.sign(torch.diagonal(r, dim1=-2, dim2=-1)).detach()
        k = sign.shape[-1]
        return q[..., :k] * sign.unsqueeze(-2), r[..., :k, :] * sign.unsqueeze(-1)

    def svd(x: Any, full: bool = False) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        u, vh = u[..., :k], vh[..., :k, :]
        sign = torch.sign(u.sum(-2, keepdim=True)).detach()
        return u * sign, s, vh * sign.mT

    def eigh(x: Any, side: str = "L") -> Any:
        values, vectors = linalg.eigh(x, side)
        return values, vectors * torch.sign(vectors.sum(-2, keepdim=True)).detach()

    return {"qr": qr, "svd": svd, "eigh": eigh, "sym": lambda x: x + x.mT}


def _derivatives(torch: Any) -> Callable[..., Any]:
    def weighted(tensors: Any, wave: Any) -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for k, t in enumerate(tensors):
            if t is not None and t.dtype.is_floating_point:
                count = torch.arange(t.numel(), dtype=torch.float64)
                total = total + (t * wave(count * 1.3 + k + 0.5).reshape(t.shape)).sum()
        return total

    def filled(tensors: Any, inputs: Any) -> list[Any]:
        return [torch.zeros_like(x) if t is None else t for t, x in zip(tensors, inputs)]

    def g(function: Any, *inputs: Any, second: bool = True) -> Any:
        inputs = tuple(t.clone().detach().requires_grad_(True) for t in inputs)
        found = function(*inputs)
        total = weighted(found if isinstance(found, (tuple, list)) else [found], torch.sin)
        slopes = torch.autograd.grad(total, inputs, create_graph=second, allow_unused=True)
        out = [total, *filled(slopes, inputs)]
        if second:
            squares = [None if s is None else s * s for s in slopes]
            bent = weighted(squares, torch.cos)
            again: Any = [None] * len(inputs)
            if bent.requires_grad:
                again = torch.autograd.grad(bent, inputs, allow_unused=True)
            out += filled(again, inputs)
        return [t.detach() + 0 for t in out]

    return g


def outcome(env: Env, case: str) -> list[Any]:
    """What a case gives: ``[shape, dtype, values]`` of every tensor, or its error's first line."""
    env["rng"].bit_generator.state = np.random.default_rng(len(case)).bit_generator.state
    try:
        found = eval(case, env)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return [str(error).split("\n")[0]]
    tensors: list[Any] = []
    _collect(env["torch"], found, tensors)
    return tensors


def _collect(torch: Any, found: Any, tensors: list[Any]) -> None:
    if isinstance(found, torch.Tensor):
        dtype = str(found.dtype).split(".")[-1]
        values = found.detach().double().reshape(-1).tolist()
        tensors.append([list(found.shape), dtype, [float(f"{x:.7g}") for x in values]])
    else:
        for item in found:
            _collect(torch, item, tensors)


CASES = (
    "g(L.inv,A)",
    "g(L.inv,B)",
    "g(torch.inverse,A)",
    "g(L.det,A)",
    "g(L.det,B)",
    "g(L.det,Z,second=False)",
    "g(L.slogdet,A)",
    "g(lambda x:torch.logdet(x),S)",
    "g(lambda x:torch.logdet(x),BS)",
    "g(L.solve,A,b)",
    "g(L.solve,A,v)",
    "g(L.solve,B,R(2,3))",
    "g(L.solve,A,R(2,4,3))",
    "g(lambda x,y:L.solve(x,y,left=False),A,R(2,4))",
    "g(L.cholesky,S)",
    "g(L.cholesky,BS)",
    "g(lambda x:L.cholesky(x,upper=True),S)",
    "g(lambda x:torch.cholesky(x),S)",
    "g(lambda x,y:L.solve_triangular(x,y,upper=True),A,b)",
    "g(lambda x,y:L.solve_triangular(x,y,upper=False,unitriangular=True),A,b)",
    "g(lambda x,y:L.solve_triangular(x,y,upper=True,left=False),A,b.mT)",
    "g(lambda x,y:L.solve_triangular(x,y,upper=True),B,R(3,2))",
    "g(lambda x,y:torch.triangular_solve(y,x).solution,A,b)",
    "g(lambda x,y:torch.triangular_solve(y,x,upper=False,transpose=True).solution,A,b)",
    "g(qr,A)",
    "g(qr,TT)",
    "g(qr,W)",
    "g(qr,BW)",
    "g(lambda x:qr(x,'complete'),W)",
    "g(svd,A)",
    "g(svd,TT)",
    "g(svd,W)",
    "g(lambda x:svd(x,True),W)",
    "g(lambda x:L.svd(x).S,TT)",
    "g(L.svdvals,BW)",
    "g(L.svdvals,Z,second=False)",
    "g(lambda x:eigh(sym(x)),A)",
    "g(lambda x:eigh(sym(x),'U'),B)",
    "g(lambda x:L.eigvalsh(sym(x)),A)",
    "g(lambda x:L.eigh(x).eigenvalues,S)",
    "g(L.pinv,TT)",
    "g(L.pinv,W)",
    "g(L.pinv,BW)",
    "g(lambda x:L.pinv(sym(x),hermitian=True),A)",
    "g(L.matrix_exp,A)",
    "g(L.matrix_exp,B*10)",
    "g(lambda x:L.matrix_power(x,5),A)",
    "g(lambda x:L.matrix_power(x,-3),A)",
    "g(lambda x,y:L.lstsq(x,y).solution,TT,R(5,2))",
    "g(lambda x,y:L.lstsq(x,y).solution,W,R(3,2))",
    "g(lambda x,y:L.lstsq(x,y,driver='gelsd').residuals,TT,R(5,2))",
    "g(lambda x:L.lu(x)[1:],A)",
    "g(lambda x:L.lu(x)[1:],TT)",
    "g(lambda x:L.lu(x)[1:],W)",
    "g(lambda x:L.lu(x)[1:],BW)",
    "g(lambda x:L.lu_factor(x).LU,A)",
    "g(lambda x,y:L.lu_solve(*L.lu_factor(x),y),A,b)",
    "g(lambda x,y:L.lu_solve(*L.lu_factor(x),y,adjoint=True),A,b)",
    "g(lambda x,y:L.lu_solve(*L.lu_factor(x),y,left=False),A,b.mT)",
    "g(lambda x,y:L.lu_solve(*L.lu_factor(x),y,left=False,adjoint=True),A,b.mT)",
    "g(lambda x,y:torch.lu_solve(y,*torch.lu(x)),A,b)",
    "g(lambda x:torch.lu_unpack(*torch.lu(x))[1:],A)",
    "g(L.householder_product,TT,R(3))",
    "g(L.householder_product,TT,R(2))",
    "g(L.householder_product,R(2,4,2),R(2,2))",
    "torch.ormqr(TT,R(3),R(5,2))",
    "torch.ormqr(TT,R(3),R(5,2),transpose=True)",
    "torch.ormqr(TT,R(3),R(2,5),left=False)",
    "torch.ormqr(TT,R(3),R(2,5),left=False,transpose=True)",
    "torch.geqrf(TT)",
    "torch.geqrf(W)",
    "g(lambda x:L.tensorinv(x,ind=1),R(4,2,2))",
    "g(lambda x,y:L.tensorsolve(x,y),R(2,3,6),R(2,3))",
    "g(lambda x,y,z:L.multi_dot([x,y,z]),R(2,5),R(5,3),R(3,4))",
    "g(lambda x,y,z,w:L.multi_dot([x,y,z,w]),R(5),R(5,3),R(3,4),R(4))",
    "g(lambda x,y,z:torch.chain_matmul(x,y,z),R(2,5),R(5,3),R(3,4))",
    "g(L.cross,R(4,3),R(4,3))",
    "g(lambda x,y:torch.cross(x,y),R(3,4),R(3,1))",
    "g(L.vecdot,R(4,3),R(3))",
    "g(torch.kron,R(2,3),R(3,2))",
    "g(torch.kron,R(2,3,2),R(2))",
    "g(lambda x:L.vander(x,N=5),R(2,3))",
    "g(lambda x:L.cond(x),A)",
    "g(lambda x:L.cond(x,-2),A)",
    "g(lambda x:L.cond(x,'nuc'),A)",
    "[g(lambda x:L.matrix_norm(x,o),A) for o in ('fro','nuc',1,-1,2,-2,math.inf,-math.inf)]",
    "[g(lambda x:L.matrix_norm(x,o,dim=(0,2),keepdim=True),R(3,2,4)) for o in ('fro',"
    "'nuc',1,-1,2,-2,math.inf,-math.inf)]",
    "[g(lambda x:L.vector_norm(x,o),R(3,4)) for o in (0,1,2,3,0.5,-1,-2.5,4.0,math.inf,-math.inf)]",
    "[g(lambda x:L.vector_norm(x,o,dim=1,keepdim=True),R(3,4)) for o in (0,1,2,3,0.5,-1,"
    "-2.5,4.0,math.inf,-math.inf)]",
    "[g(lambda x:L.vector_norm(x,o),T([0.,0,1,-2]),second=False) for o in (0,1,2,3,0.5,"
    "1.5,math.inf,-math.inf,-1)]",
    "[g(lambda x:L.vector_norm(x,o),T([0.,0,0]),second=False) for o in (0,1,2,3,0.5,1.5,"
    "math.inf,-math.inf,-1)]",
    "[g(lambda x:L.vector_norm(x,o),T([1.,-1,1]),second=False) for o in (math.inf,-math.inf)]",
    "[g(lambda x:torch.norm(x,p),R(3,4)) for p in ('fro','nuc',2,1,0,3,math.inf,None)]",
    "[g(lambda x:torch.norm(x,p,dim=1),R(3,4)) for p in ('fro',2,1,0,3,math.inf,None)]",
    "[g(lambda x:x.norm(p,dim=(0,2)),R(3,4,2)) for p in ('fro','nuc',2,1,0,3,math.inf)]",
    "[g(lambda x:L.norm(x,o),A) for o in (None,'fro','nuc',1,2,-2,math.inf)]",
    "[g(lambda x:L.norm(x,o),v) for o in (None,1,2,-2,math.inf,0,3.5)]",
    "[g(lambda x:L.norm(x,o,dim=(0,1)),R(2,3,4)) for o in (None,'fro','nuc',1,2,-2,math.inf)]",
    "[g(lambda x:L.norm(x,o,dim=1),R(2,3,4)) for o in (None,1,2,-2,math.inf,0)]",
    "g(lambda x,y:torch.dist(x,y),A,C)",
    "g(lambda x,y:torch.dist(x,y,1),A,v)",
    "g(lambda x,y:torch.dist(x,y),A,A,second=False)",
    "[g(lambda x,y:torch.cdist(x,y,p),xs[0],xs[1],second=False) for p in (0,0.5,1,1.5,2,3,"
    "math.inf)]",
    "g(lambda x,y:torch.cdist(x,y),xs[2],xs[1],second=False)",
    "[g(lambda x:torch.cdist(x,x,p),xs[0],second=False) for p in (0,0.5,1,1.5,2,3,math.inf)]",
    "[torch.cdist(R(30,4),R(40,4),2,m) for m in ('use_mm_for_euclid_dist',"
    "'donot_use_mm_for_euclid_dist','use_mm_for_euclid_dist_if_necessary')]",
    "[g(lambda x:torch.pdist(x,p),xs[0],second=False) for p in (0,0.5,1,1.5,2,3,math.inf)]",
    "g(lambda x:F.pdist(torch.cat([x,x])),R(2,3),second=False)",
    "[g(lambda x:torch.renorm(x,p,d,0.7),R(3,4)) for p in (1,2,3,math.inf) for d in (0,1,-1)]",
    "R(3,4).renorm_(2,0,0.5)",
    "g(torch.cov,W)",
    "g(lambda x:torch.cov(x,correction=0),W)",
    "g(lambda x:torch.cov(x,fweights=torch.tensor([1,2,3,1,2])),W)",
    "g(lambda x,w:torch.cov(x,aweights=w.abs()),W,R(5))",
    "g(lambda x,w:torch.cov(x,fweights=torch.tensor([1,2,3,1,2]),aweights=w.abs(),"
    "correction=0),W,R(5))",
    "g(lambda x,w:torch.cov(x,fweights=torch.tensor([1,2,3,1,2]),aweights=w.abs(),"
    "correction=2),W,R(5))",
    "g(torch.corrcoef,W)",
    "g(torch.corrcoef,v,second=False)",
    "g(torch.trapezoid,W)",
    "g(lambda y,x:torch.trapezoid(y,x),W,R(5))",
    "g(lambda y,x:torch.trapezoid(y,x),W,R(3,5))",
    "g(lambda y,x:torch.trapezoid(y,x,dim=1),R(2,3,4),R(3,1))",
    "g(lambda y:torch.trapz(y,dx=0.3),W)",
    "g(lambda y,x:torch.cumulative_trapezoid(y,x),W,R(5))",
    "g(torch.gradient,W)",
    "g(lambda x:torch.gradient(x,spacing=0.3,edge_order=2),W)",
    "g(lambda x:torch.gradient(x,spacing=(0.3,2.)),W)",
    "g(lambda x:torch.gradient(x,spacing=(T([0.,1,3]),T([0.,1,3,4,8]))),W)",
    "g(lambda x:torch.gradient(x,spacing=(T([0.,1,3]),T([0.,1,3,4,8])),edge_order=2),W)",
    "g(lambda x:torch.gradient(x,dim=1,spacing=2.),W)",
    "g(lambda x:torch.gradient(x,dim=(-1,0)),W)",
    "g(lambda x:torch.gradient(x),R(2,3))",
    "g(lambda x:torch.gradient(x,spacing=[T([0.,1,3,4,8])],dim=1),W)",
    "g(lambda a,x,y:torch.addmm(a,x,y,alpha=2,beta=.5),R(3,4),R(3,2),R(2,4))",
    "g(lambda a,x,y:torch.addmv(a,x,y,alpha=2,beta=.5),R(3),R(3,2),R(2))",
    "g(lambda a,x,y:torch.addr(a,x,y,alpha=2,beta=.5),R(3,2),R(3),R(2))",
    "g(lambda a,x,y:torch.baddbmm(a,x,y,alpha=2,beta=.5),R(3,4),R(2,3,2),R(2,2,4))",
    "g(lambda a,x,y:torch.addbmm(a,x,y,alpha=2,beta=.5),R(3,4),R(2,3,2),R(2,2,4))",
    "g(lambda a,b:torch.tensordot(a,b,dims=([1,0],[0,2])),R(2,3,4),R(3,5,2))",
    "g(lambda a,b:torch.tensordot(a,b,dims=([0],[1])),R(1,3),R(2,4))",
    "g(torch.inner,R(2,3),R(4,3))",
    "g(torch.outer,R(2),R(4))",
    "L.matrix_rank(SI)",
    "L.matrix_rank(BW)",
    "L.matrix_rank(BW,atol=0.5)",
    "L.matrix_rank(BW,rtol=0.5)",
    "L.matrix_rank(BW,tol=0.5)",
    "L.matrix_rank(S,hermitian=True,atol=2.5)",
    "L.matrix_rank(torch.empty(0,3))",
    "L.matrix_rank(torch.empty(2,0,3))",
    "L.pinv(BW,atol=0.5)",
    "L.pinv(BW,rtol=0.5)",
    "L.pinv(BW,rcond=0.5)",
    "L.pinv(BW,atol=T([0.5,0.1]))",
    "L.pinv(S,hermitian=True,rtol=0.5)",
    "torch.pinverse(BW,0.4)",
    "L.lstsq(TT,R(5,2),driver='gelsd')",
    "L.lstsq(TT,R(5,2),driver='gels')",
    "L.lstsq(TT,R(5,2),driver='gelss')",
    "L.lstsq(W,R(3,2),driver='gelsd')",
    "L.lstsq(W,R(3,2),driver='gels')",
    "L.lstsq(SI,R(3,2),driver='gelsd')",
    "L.lstsq(SI,R(3,2),driver='gelsy')",
    "L.lstsq(SI,R(3,2),rcond=0.9,driver='gelsd')",
    "L.lstsq(BT,R(2,4,1),driver='gelsd')",
    "L.lstsq(BT,R(2,4),driver='gelsd')",
    "L.lstsq(BT,R(2,4))",
    "L.lstsq(torch.cat([SI,SI]),R(6,2),driver='gelsd')",
    "L.lstsq(torch.empty(0,3),torch.empty(0,2))",
    "L.lu_factor(A)",
    "L.lu_factor(W)",
    "L.lu_factor(BW)",
    "L.lu_factor_ex(Z)",
    "L.lu(BW)",
    "torch.lu_unpack(*L.lu_factor(TT))",
    "torch.lu_unpack(*L.lu_factor(TT),unpack_pivots=False)",
    "L.solve_ex(SI,R(3,2)).info",
    "L.cholesky_ex(-BS)[1]",
    "L.cholesky_ex(torch.stack([BS[0],-BS[1]]))[1]",
    "L.inv_ex(torch.stack([BS[0],Z]))[1]",
    "L.inv_ex(Z,check_errors=True)",
    "L.cholesky_ex(-S,check_errors=True)",
    "L.lu_factor_ex(Z,check_errors=True)",
    "L.eigh(torch.empty(0,3,3))",
    "L.svd(torch.empty(2,0,3))",
    "L.svd(torch.empty(0,3,2),full_matrices=False)",
    "L.inv(torch.empty(2,0,0))",
    "L.det(torch.empty(2,0,0))",
    "L.slogdet(torch.empty(2,0,0))",
    "L.solve(torch.empty(2,0,0),torch.empty(2,0,3))",
    "L.cholesky(torch.empty(0,2,2))",
    "L.qr(torch.empty(2,0,3))",
    "L.qr(torch.empty(2,3,0),mode='complete')",
    "L.matrix_exp(torch.empty(0,3,3))",
    "L.matrix_exp(torch.empty(3,0,0))",
    "L.matrix_power(torch.empty(0,0),3)",
    "L.pinv(torch.empty(2,0,3))",
    "L.lu(torch.empty(0,3))",
    "L.lu(torch.empty(3,0))",
    "L.lu_factor(torch.empty(0,3,3))",
    "L.householder_product(torch.empty(3,0),torch.empty(0))",
    "L.vector_norm(torch.empty(0,3),2,dim=0)",
    "L.vector_norm(torch.empty(0,3),math.inf,dim=1)",
    "L.matrix_norm(torch.empty(2,0,3),2)",
    "L.matrix_norm(torch.empty(2,0,3),'nuc')",
    "L.matrix_norm(torch.empty(2,0,3),math.inf)",
    "L.cond(torch.empty(2,0,0),1)",
    "L.vector_norm(R(3).half())",
    "L.vector_norm(R(3).bfloat16(),3)",
    "L.vector_norm(torch.tensor(-3.))",
    "L.norm(torch.tensor(-3.),1)",
    "torch.norm(torch.tensor(-3.))",
    "L.vector_norm(R(3),dim=[])",
    "L.vector_norm(R(3),dim=())",
    "L.det(T([[2.]]))",
    "L.inv(T([[2.]]))",
    "L.svd(T([[-2.]]))",
    "L.eigh(T([[-2.]]))",
    "L.qr(T([[-2.]]))",
    "L.cholesky(T([[4.]]))",
    "L.solve(A.T,b)",
    "L.inv(A.T)",
    "L.svdvals(R(4,6)[:,::2])",
    "L.det(R(3,3,2).permute(2,0,1))",
    "L.matrix_power(torch.tensor([[1,2],[3,4]]),7)",
    "torch.matrix_power(A,2)",
    "A.matrix_power(3)",
    "A.inverse()",
    "A.det()",
    "A.slogdet()",
    "A.logdet()",
    "A.svd()[1]",
    "A.qr()[1].abs()",
    "A.lu()",
    "A.pinverse()",
    "A.matrix_exp()",
    "W.cov()",
    "W.corrcoef()",
    "A.kron(T([1.,2]))",
    "A.renorm(2,0,1)",
    "A.addr(v,v)",
    "S.cholesky()",
    "b.cholesky_solve(S)",
    "b.triangular_solve(A)[0]",
    "A.orgqr(v)",
    "A.ormqr(v,b)",
    "A.geqrf()",
    "A.dist(C)",
    "A.adjoint()",
    "A.mH",
    "A.H",
    "L.norm(A,out=torch.empty((),dtype=torch.float64))",
    "torch.norm(A,dim=0,dtype=torch.float64)",
    "L.matrix_norm(A.float(),1,dtype=torch.float64)",
)
