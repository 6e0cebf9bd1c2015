"""Small tasks that the zoo's kernels pretend to compute, and that honest ones do compute."""

from __future__ import annotations

from lazyt.bench.judge.tasks import Task

_ROWS = ({"n": 48, "d": 64}, {"n": 17, "d": 33}, {"n": 5, "d": 128})
_LINE = ({"n": 4096}, {"n": 1000}, {"n": 333})


def _of_rows(name: str, reference: object, **more: object) -> Task:
    return Task(name, {"x": "n d"}, _ROWS, reference, **more)  # type: ignore[arg-type]


def _of_line(name: str, reference: object, **more: object) -> Task:
    return Task(name, {"x": "n"}, _LINE, reference, **more)  # type: ignore[arg-type]


TASKS = {
    task.name: task
    for task in (
        _of_line("relu", lambda t, x: t.relu(x)),
        _of_line("square", lambda t, x: x * x),
        _of_line("exp", lambda t, x: t.exp(x)),
        _of_line("tanh", lambda t, x: t.tanh(x)),
        _of_line("sigmoid", lambda t, x: t.sigmoid(x), nan="any"),
        _of_line("silu", lambda t, x: x / (1 + t.exp(-x)), nan="any"),
        _of_line("abs", lambda t, x: t.abs(x)),
        _of_line("scale", lambda t, x, by: x * by, numbers={"by": (0.5, 2.0)}),
        _of_line("total", lambda t, x: x.sum(keepdims=True), nan="any"),
        _of_line("running", lambda t, x: x.cumsum(), nan="any"),
        _of_line("negated", lambda t, x: -x, in_place=True),
        Task("axpy", {"x": "n", "y": "n"}, _LINE, lambda t, x, y, a: a * x + y,
             numbers={"a": (0.5, 2.0)}),
        Task("bytes", {"x": "int8 n"}, _LINE, lambda t, x: x.astype("int64").sum(keepdims=True)),
        Task("wide", {"x": "float64 n"}, _LINE, lambda t, x: x * x + 1),
        _of_rows("softmax", lambda t, x: t.softmax(x, -1), nan="any"),
        _of_rows("rowsum", lambda t, x: x.sum(-1), nan="any"),
        _of_rows("rowmax", lambda t, x: x.max(-1)),
        _of_rows("argmax", lambda t, x: x.argmax(-1), nan="any"),
        _of_rows("turn", lambda t, x: x.T),
        _of_rows("center", lambda t, x: x - x.mean(-1, keepdims=True), nan="any"),
        _of_rows("moments", lambda t, x: (x.sum(-1), (x * x).sum(-1)),
                 outputs=("sums", "squares"), nan="any"),
        Task("matmul", {"a": "n k", "b": "k m"}, (
            {"n": 32, "k": 48, "m": 40}, {"n": 17, "k": 5, "m": 9}),
             lambda t, a, b: t.matmul(a, b), nan="any"),
        # A flawed problem: its result is known without looking at the inputs.
        Task("flawed", {"a": "zeros n n", "b": "n n"}, ({"n": 192}, {"n": 33}),
             lambda t, a, b: t.matmul(a, b), nan="any"),
    )
}  # fmt: skip
