"""Checks: what no argument may be, said in one voice, whichever argument it is."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from fedlab_mini.parse import checks

X = np.arange(6.0).reshape(2, 3)
ROWS = np.empty(2, object)
ROWS[:] = list(X)
with torch.inference_mode():
    INFERRED = torch.from_numpy(X).clone()
READ = {
    "mirrored": X[:, ::-1][:, ::-1],
    "big-endian": X.astype(">f4"),
    "read-only": np.frombuffer(X.tobytes()).reshape(2, 3),
    "a field of records": np.rec.fromarrays([X, X > 1], names="a,b")["a"],
    "a frame that knows of gaps": pd.DataFrame(X).astype("Float64"),
    "a frame of whole numbers": pd.DataFrame(X).astype("UInt8"),
    "a frame of both": pd.DataFrame(X).astype({0: "Int64", 1: "Float32"}),
    "a sparse frame": pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X)),
    "torch, sparse": torch.from_numpy(X).to_sparse(),
    "scipy": scipy.sparse.lil_matrix(X),
    "rows of arrays": ROWS,
    "rows of brain floats": [*torch.from_numpy(X).bfloat16()],
    "rows that want a gradient": [*torch.from_numpy(X).requires_grad_()],
    "sparse rows": [row.to_sparse() for row in torch.from_numpy(X)],
    "a row of each kind": [torch.from_numpy(X[0]), X[1].tolist()],
    "unsigned": torch.from_numpy(X).to(torch.uint64),
    "eight bits": torch.from_numpy(X).to(torch.float8_e4m3fn),
    "made for inference": INFERRED,
}
TOLD = {
    "words": (pd.DataFrame({"a": ["x"], "b": [1.0]}), r"DataFrame \[1, 2\] of \w+, float64; "),
    "decimals": ([[Decimal("1.5")]], r"\[\[Decimal.* may read it$"),
    "nothing": (np.array([[1, None]], object), r"of object; numpy\.array\(\.\.\., dtype=float\)"),
    "a gap": (pd.DataFrame({"a": [1, None], "b": [0.5, 1]}).convert_dtypes(), "holds NaN"),
    "sparse, of no rows": (torch.zeros(0, 3).to_sparse(), r"got Tensor \[0, 3\] of float32$"),
    "gone through": ([iter(X)], "may read it$"),
}


@pytest.mark.parametrize("given", READ.values(), ids=READ)
def test_arrays_are_read_as_people_have_them(given):
    read = checks.reals("it", given, [2, "d"])
    assert read.tolist() == X.tolist()
    read.requires_grad_().square().sum().backward()  # what inference mode has made refuses this


@pytest.mark.parametrize(("given", "said"), TOLD.values(), ids=TOLD)
def test_what_is_no_array_is_told_so(given, said):
    with pytest.raises((TypeError, ValueError), match=rf"^it: .*{said}"):
        checks.reals("it", given, ["n", "d"])


@pytest.mark.parametrize("one", [3, np.array(3), torch.tensor(3), np.uint64(3)])
def test_an_array_without_a_shape_is_a_number(one):
    assert (checks.whole("it", one), checks.number("it", one)) == (3, 3.0)
    for wrong in (torch.tensor([3]), torch.tensor(True)):
        for check in (checks.whole, checks.number):
            with pytest.raises(TypeError, match=r"^it: expected .* number.*, got Tensor \["):
                check("it", wrong)


def test_a_gap_among_whole_numbers_is_named():
    with pytest.raises(TypeError, match=r"^it: .* with gaps \(NaN\)$"):
        checks.wholes("it", pd.Series([1, None], dtype="Int64"), ["n"])
    assert checks.wholes("it", [], [0]).dtype == torch.int64


def test_whole_numbers_add_up_to_a_whole_number():
    with pytest.raises(ValueError, match=r"^sizes: expected whole numbers in 1\.\.\d+, got 46"):
        checks.wholes("sizes", [2**62] * 3, ["K"], 1)
    assert checks.wholes("sizes", [2**62], ["K"], 1).tolist() == [2**62]


def test_a_mask_that_hides_nothing_is_none():
    whole = np.ma.array([1, 2, 3], mask=[False, False, False])
    assert checks.wholes("it", whole, ["n"]).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"^it: expected .* hides values behind a mask$"):
        checks.wholes("it", [1, np.ma.masked], ["n"])


class Broken:
    def __repr__(self):
        raise ArithmeticError("no")


def test_a_message_is_one_line_whatever_was_given():
    class Poem:
        def __repr__(self):
            return "roses\nare red" * 50

    assert "Broken object at" in checks.shown(Broken())
    assert checks.shown(Poem()).startswith("roses are red")
    assert len(checks.shown(Poem())) == checks.SHOWN
